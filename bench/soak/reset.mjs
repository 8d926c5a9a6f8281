/**
 * Closes a connection by a reset, which Node has for plain connections only.
 *
 * @param {import('node:net').Socket} socket
 */
export const reset = (socket) => ('encrypted' in socket ? socket.destroy() : socket.resetAndDestroy());
