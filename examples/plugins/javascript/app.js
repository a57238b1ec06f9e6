// The volume `jsScratch: { size: 64Mi }`: a memory file system for one pod.

import { create } from 'volhost:plugin/tmpfs@0.1.0';

const FIELDS = ['size'];
const UNITS = { '': 1n, k: 10n ** 3n, M: 10n ** 6n, G: 10n ** 9n, Ki: 2n ** 10n, Mi: 2n ** 20n, Gi: 2n ** 30n };
const LARGEST = 2n ** 63n - 1n;

function invalid(volume, field, why) {
  return { tag: 'invalid-argument', val: `${volume.source()}.${field}: ${why}` };
}

// The limit in bytes; undefined when the volume has none. Checks every field, so that a misspelt
// one is reported.
function size(volume) {
  for (const field of volume.parameters()) {
    if (!FIELDS.includes(field)) throw invalid(volume, field, 'no such field; the only one is size');
  }
  const text = volume.parameter('size');
  if (text === undefined) return undefined;
  const found = /^([0-9]{1,20})(|[kMG]|[KMG]i)$/.exec(text);
  if (!found) throw invalid(volume, 'size', `'${text.slice(0, 24)}' is no quantity; write it as 64Mi`);
  const limit = BigInt(found[1]) * UNITS[found[2]];
  if (limit <= 0n || limit > LARGEST) throw invalid(volume, 'size', 'must be more than 0 and less than 8 EiB');
  return limit;
}

export const plugin = {
  describe(into) {
    into.name('example.com/js-scratch');
    into.version('0.1.0');
    into.serves('jsScratch');
  },
  identify(volume, _into) {
    size(volume);
  },
};

export const publisher = {
  publish(volume, pod, target) {
    // The host may call again at any time: an existing mount is done.
    if (target.state() === 'mounted') return;
    const options = [{ key: 'mode', value: '0777' }];
    const limit = size(volume);
    if (limit !== undefined) options.push({ key: 'size', value: `${limit}` });
    const group = pod.fsGroup();
    if (group !== undefined) options.push({ key: 'gid', value: `${group}` });
    const mount = create(options);
    if (volume.readOnly()) mount.setOptions(['ro'], false);
    // No process sees the mount before this; on a failure until here, it is discarded.
    target.attach(mount);
  },
  unpublish(target) {
    target.detach();
  },
};
