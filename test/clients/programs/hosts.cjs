/*
 * Loaded before a client that has its API's address built in. It does what a line in the hosts file and port 443 do for
 * its users: connections to POINT_HOST go to POINT_PORT of this machine. Name and certificate are checked as ever.
 */
const tls = require('node:tls');
const connect = tls.connect;

tls.connect = function (...args) {
  const [options] = args;
  if (typeof options === 'object' && [options.host, options.servername].includes(process.env.POINT_HOST)) {
    args[0] = {
      ...options,
      host: '127.0.0.1',
      port: Number(process.env.POINT_PORT),
      servername: process.env.POINT_HOST,
    };
  }
  return connect.apply(this, args);
};
