import { register } from 'node:module';

// tap hooks itself into every Node process that a test starts. No test needs that, and it doubles
// the startup time.
/** @type {{ unwrap(): void } | undefined} */
const hooked = Reflect.get(globalThis, Symbol.for('process-on-spawn@*:singletonId'));
hooked?.unwrap();

register(new URL('./hooks.mjs', import.meta.url));
