{{- define "volhost.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}

{{- /* What both pods say of images. */}}
{{- define "volhost.pod" -}}
{{- with .Values.image.pullSecrets }}
imagePullSecrets:
  {{- range . }}
  - name: {{ . }}
  {{- end }}
{{- end }}
{{- if .Values.hostNetwork }}
hostNetwork: true
{{- end }}
{{- end }}

{{- define "volhost.container" -}}
image: {{ include "volhost.image" . }}
{{- with .Values.image.pullPolicy }}
imagePullPolicy: {{ . }}
{{- end }}
{{- end }}

{{- /* Arguments of csi-serve that both services have. */}}
{{- define "volhost.driverArguments" -}}
{{- with .Values.driver.topologyKey }}
- --topology={{ . }}=$(KUBE_NODE_NAME)
{{- end }}
{{- if .Values.driver.maxVolumesPerNode }}
- --max-volumes-per-node={{ .Values.driver.maxVolumesPerNode }}
{{- end }}
{{- with .Values.driver.arguments }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "volhost.driverEnv" -}}
env:
  - name: KUBE_NODE_NAME
    valueFrom: { fieldRef: { fieldPath: spec.nodeName } }
  {{- with .Values.env }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end }}

{{- define "volhost.folderMounts" -}}
{{- range .Values.driver.folders }}
- { name: {{ .name }}, mountPath: {{ .mountPath | default .path | quote }} }
{{- end }}
- { name: devices, mountPath: /dev }
{{- end }}

{{- define "volhost.folders" -}}
{{- range .Values.driver.folders }}
- name: {{ .name }}
  hostPath: { path: {{ .path | quote }}, type: DirectoryOrCreate }
{{- end }}
- name: devices
  hostPath: { path: /dev, type: Directory }
{{- end }}
