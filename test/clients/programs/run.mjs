/*
 * Uses a library as its users' programs do: `node run.mjs PACKAGE STEPS`, with API_URL and API_KEY.
 * STEPS is a JSON list of calls, each a list of a name and its arguments. Prints one line of JSON
 * for each: `{"ok": value}` or `{"error": ...}`.
 */
import { createRequire } from 'node:module';
import { pathToFileURL } from 'node:url';

const { API_URL: base = '', API_KEY: key, PACKAGES: home } = process.env;
const [name, steps] = process.argv.slice(2);
const require = createRequire(pathToFileURL(`${home}/package.json`));

/**
 * @typedef {(call: string, args: unknown[]) => Promise<unknown>} Call makes one call of a library
 */

/**
 * How each library is pointed at another address, and how one of its calls is made.
 *
 * @type {Readonly<Record<string, () => Call | Promise<Call>>>}
 */
const LIBRARIES = {
  fastly: official,
  'fastly-7': official,
  'fastly-3': official,
  'fastly-2': () => {
    const client = require('fastly-2')(key);
    return (call, args) => promised((done) => client[call](...args, done));
  },
  'fastly-promises': () => {
    const client = require('fastly-promises')(key, 'SVC1');
    client.request.defaults.baseURL = base;
    return async (call, args) => (await client[call](...args)).data;
  },
  'fastly-api': () => {
    const { purge } = require('fastly-api')({ apiKey: key, endpoint: base, service: 'SVC1' });
    return async (call, args) => purge[call](...args);
  },
  'fastly-purge': () => {
    const client = new (require('fastly-purge'))(key);
    return (call, args) => promised((done) => client[call](...args, done));
  },
  '@adobe/fastly-native-promises': async () => {
    const { default: connect } = await import(pathToFileURL(require.resolve(name)).href);
    const client = await connect(key, 'SVC1');
    return async (call, args) => {
      if (call === 'remaining') return client.requestmonitor.remaining;
      return (await client[call](...args)).data;
    };
  },
};

/**
 * The vendor's own library, where each call has its address built in: a plugin of its HTTP client
 * rewrites it.
 *
 * @returns {Call}
 */
function official() {
  const library = require(name);
  const client = library.ApiClient.instance;
  client.basePath = base;
  client.plugins = [
    (/** @type {{ url: string }} */ request) =>
      void (request.url = request.url.replace('https://api.fastly.com', base)),
  ];
  client.authenticate(key);
  return async (call, args) => {
    if (call === 'authenticate') return client.authenticate(...args);
    if (call === 'limits') return [client.rateLimitRemaining, client.rateLimitReset];
    const [api = '', method = ''] = call.split('.');
    return new library[api](client)[method](...args);
  };
}

/**
 * @param {(done: (error: unknown, value?: unknown) => void) => void} start
 * @returns {Promise<unknown>}
 */
function promised(start) {
  return new Promise((resolve, reject) => {
    start((error, value) => (error ? reject(error) : resolve(value)));
  });
}

/** @param {any} error of any library */
function told(error) {
  const { status, statusCode, body, response, message } = error;
  return {
    status: status ?? statusCode ?? response?.status,
    body: body ?? response?.data ?? message,
    code: error.code,
  };
}

const make = await LIBRARIES[name]();
for (const [call, ...args] of JSON.parse(steps)) {
  const line = await make(call, args).then(
    (value) => ({ ok: value ?? null }),
    (error) => ({ error: told(error) }),
  );
  console.log(JSON.stringify(line));
}
// A library may keep connections open for later calls, of which there are none.
process.exit(0);
