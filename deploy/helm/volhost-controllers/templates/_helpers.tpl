{{- define "volhost.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}

{{- /* The objects of a file of deploy/, in the namespace of the release, which helm makes. Takes the
root, the name of the file and of its namespace, and annotations. */}}
{{- define "volhost.objects" -}}
{{- $release := .root.Release.Namespace }}
{{- $text := .root.Files.Get .file | replace (printf "namespace: %s" .namespace) (printf "namespace: %s" $release) }}
{{- range splitList "\n---\n" $text }}
{{- $object := fromYaml . }}
{{- if ne $object.kind "Namespace" }}
{{- with $.annotations }}{{ $_ := set $object.metadata "annotations" . }}{{ end }}
---
{{ toYaml $object }}
{{- end }}
{{- end }}
{{- end }}

{{- /* The Deployment of a controller and its budget. Takes the root, its values, its name, the command
of volhost-controller, and its user. */}}
{{- define "volhost.controller" -}}
apiVersion: apps/v1
kind: Deployment
metadata:
  name: {{ .name }}
  namespace: {{ .root.Release.Namespace }}
spec:
  replicas: {{ .values.replicas }}
  selector:
    matchLabels: { app: {{ .name }} }
  template:
    metadata:
      labels: { app: {{ .name }}, volhost.io/job: {{ .name }} }
    spec:
      serviceAccountName: {{ .name }}
      priorityClassName: system-cluster-critical
      {{- with .root.Values.image.pullSecrets }}
      imagePullSecrets:
        {{- range . }}
        - name: {{ . }}
        {{- end }}
      {{- end }}
      {{- if .root.Values.hostNetwork }}
      hostNetwork: true
      {{- end }}
      {{- with .values.nodeSelector }}
      nodeSelector:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      affinity:
        podAntiAffinity:
          preferredDuringSchedulingIgnoredDuringExecution:
            - weight: 100
              podAffinityTerm:
                topologyKey: kubernetes.io/hostname
                labelSelector:
                  matchLabels: { app: {{ .name }} }
      {{- with .values.tolerations }}
      tolerations:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      securityContext:
        runAsNonRoot: true
        runAsUser: 65532
        seccompProfile: { type: RuntimeDefault }
      containers:
        # It ends by itself when it can no longer renew its Lease, and is started again.
        - name: controller
          image: {{ include "volhost.image" .root }}
          {{- with .root.Values.image.pullPolicy }}
          imagePullPolicy: {{ . }}
          {{- end }}
          command: [volhost-controller]
          args:
            - {{ .command }}
            - --metrics-listen=0.0.0.0:{{ .values.metricsPort }}
            {{- with .values.arguments }}
            {{- toYaml . | nindent 12 }}
            {{- end }}
          {{- with .root.Values.env }}
          env:
            {{- toYaml . | nindent 12 }}
          {{- end }}
          ports:
            - { name: metrics, containerPort: {{ .values.metricsPort }} }
          livenessProbe:
            httpGet: { path: /metrics, port: metrics }
            initialDelaySeconds: 10
            periodSeconds: 30
            timeoutSeconds: 5
          securityContext:
            allowPrivilegeEscalation: false
            capabilities: { drop: [ALL] }
            readOnlyRootFilesystem: true
          {{- with .values.resources }}
          resources:
            {{- toYaml . | nindent 12 }}
          {{- end }}
{{- if .values.minAvailable }}
---
# Draining nodes leaves one that works.
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  name: {{ .name }}
  namespace: {{ .root.Release.Namespace }}
spec:
  minAvailable: {{ .values.minAvailable }}
  selector:
    matchLabels: { app: {{ .name }} }
{{- end }}
{{- if .root.Values.podMonitor }}
---
apiVersion: monitoring.coreos.com/v1
kind: PodMonitor
metadata:
  name: {{ .name }}
  namespace: {{ .root.Release.Namespace }}
spec:
  selector:
    matchLabels: { app: {{ .name }} }
  # The alerts ask for this job.
  jobLabel: volhost.io/job
  podMetricsEndpoints:
    - port: metrics
      path: /metrics
{{- end }}
{{- end }}
