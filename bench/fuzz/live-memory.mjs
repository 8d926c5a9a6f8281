// Loaded into a server by peers-subject: reports the memory in use after a collection. Needs
// --expose-gc.
process.on('message', (asked) => {
  if (asked !== 'memory') return;
  globalThis.gc?.();
  globalThis.gc?.();
  const { heapUsed, external } = process.memoryUsage();
  process.send?.({ liveBytes: heapUsed + external });
});
process.channel?.unref();
