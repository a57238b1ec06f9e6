// componentize.mjs APP WIT OUT: makes the component OUT of the module APP, for the world `scratch` of the folder WIT.
import { readFile, writeFile } from 'node:fs/promises';
import { componentize } from '@bytecodealliance/componentize-js';

const [app, witPath, out] = process.argv.slice(2);
// A volume plugin serves no HTTP; volhost answers the rest of WASI as a machine that has nothing.
const { component } = await componentize(await readFile(app, 'utf8'), {
  witPath,
  worldName: 'scratch',
  disableFeatures: ['http', 'fetch-event'],
});
await writeFile(out, component);
