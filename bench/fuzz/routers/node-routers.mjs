import { createServer } from 'node:http';
import { Router } from '@koa/router';
import { getRequestListener } from '@hono/node-server';
import express5 from 'express';
// @ts-expect-error: it has no types of its own
import express4 from 'express4';
import fastify from 'fastify';
import { Hono } from 'hono';
// @ts-expect-error: it has no types of its own
import Koa from 'koa';

/** @import { IncomingMessage, ServerResponse } from 'node:http' */
/** @typedef {(req: IncomingMessage, res: ServerResponse) => unknown} RequestListener */
/** @typedef {{ path: string, prefix: string | null, tag: string }} Handler a `prefix` is the path without its final `*` */

/**
 * The listener of each router of Node, with the handlers of a table.
 *
 * @type {Record<string, (handlers: readonly Handler[]) => RequestListener | Promise<RequestListener>>}
 */
export const NODE_ROUTERS = {
  'Express 4': (handlers) => expressOf(express4(), handlers, '*'),
  'Express 5': (handlers) => expressOf(express5(), handlers, '*rest'),
  Koa: (handlers) => {
    const router = new Router();
    for (const { path, prefix, tag } of handlers)
      router.all(prefix === null ? path : `${prefix}{*rest}`, (/** @type {any} */ context) => {
        context.body = { tag, sid: context.params['sid'] };
      });
    return new Koa().use(router.routes()).callback();
  },
  Fastify: async (handlers) => {
    const app = fastify();
    for (const { path, tag } of handlers)
      app.all(decodeURI(path), async ({ params }, reply) => {
        const { sid, id } = /** @type {any} */ (params);
        // Only this router's parameters match an empty segment, and then they name nothing.
        return sid === '' || id === '' ? reply.code(404).send() : { tag, sid };
      });
    await app.ready();
    return (req, res) => app.routing(req, res);
  },
  Hono: (handlers) => {
    const app = new Hono();
    for (const { path, tag } of handlers)
      app.all(decodeURI(path), (context) => context.json({ tag, sid: context.req.param('sid') }));
    return getRequestListener(app.fetch);
  },
  'startsWith before decoding': (handlers) => byHand(handlers, String, String),
  'startsWith after decoding': (handlers) => byHand(handlers, decodeURI, decodeURIComponent),
};

/** @param {any} app @param {readonly Handler[]} handlers @param {string} rest its notation for `*` */
function expressOf(app, handlers, rest) {
  for (const { path, prefix, tag } of handlers) {
    if (path === '/open/*') app.use('/open', answerWith(tag));
    else app.all(prefix === null ? path : `${prefix}${rest}`, answerWith(tag));
  }
  return app;
}

/** @param {string} tag */
function answerWith(tag) {
  return (/** @type {any} */ req, /** @type {any} */ res) =>
    res.end(JSON.stringify({ tag, sid: req.params.sid }));
}

/**
 * A program without a router, which compares the beginning of the target.
 *
 * @param {readonly Handler[]} handlers
 * @param {(path: string) => string} written how it writes the path of a handler
 * @param {(path: string) => string} read how it reads the path of a request
 * @returns {RequestListener}
 */
function byHand(handlers, written, read) {
  const patterns = handlers.map(({ path, prefix, tag }) => ({
    tag,
    pattern: new RegExp(`^${written(prefix ?? path).replace(':sid', '(?<sid>[^/]+)').replace(/:\w+/, '[^/]+')}${prefix === null ? '$' : ''}`),
  }));
  return ({ url = '' }, res) => {
    const path = read(url.split('?', 1)[0]);
    for (const { tag, pattern } of patterns) {
      const found = pattern.exec(path);
      if (found !== null) return res.end(JSON.stringify({ tag, sid: found.groups?.['sid'] }));
    }
    return res.writeHead(404).end();
  };
} // prettier-ignore

/** @param {RequestListener} listener @returns {Promise<{ port: number, stop: () => void }>} */
export async function serve(listener) {
  const server = createServer(listener);
  await new Promise((listening) => server.listen(0, '127.0.0.1', () => listening(undefined)));
  return {
    port: /** @type {import('node:net').AddressInfo} */ (server.address()).port,
    stop: () => {
      server.close();
      server.closeAllConnections();
    },
  };
}
