// Every process imports this module before any other, because a signal may arrive while the others
// are loaded.

// Node.js would open its debugger on a port of this machine, where every local user could run code
// in this process.
process.on('SIGUSR1', () => undefined);
