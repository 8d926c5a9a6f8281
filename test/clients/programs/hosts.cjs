/*
 * Preloaded into a client with a built-in API address. It replaces a line in the hosts file and
 * port 443: connections to POINT_HOST go to POINT_PORT on this machine. Server name and certificate
 * are verified as usual.
 */
const tls = require('node:tls');

const { POINT_HOST: name, POINT_PORT: port } = process.env;
const connect = tls.connect;

/**
 * connect(options), connect(port, options) or connect(port, host, options), each with an optional
 * callback.
 *
 * @this {unknown}
 * @param {...any} args
 */
function toPoint(...args) {
  const options = args.find((each) => typeof each === 'object');
  const host = typeof args[1] === 'string' ? args[1] : options?.host;
  if (host !== name && options?.servername !== name) return Reflect.apply(connect, this, args);
  const callbacks = args.filter((each) => typeof each === 'function');
  const point = { ...options, host: '127.0.0.1', port: Number(port), servername: name };
  return Reflect.apply(connect, this, [point, ...callbacks]);
}

tls.connect = toPoint;
