import type { Content } from '../http/replies.js';
import type { Handler } from './call.js';
import type { InterfaceSettings } from './openapi/document.js';
import type { OpenApi } from './schema/answers.js';

/**
 * GET /_latchkey/openapi.json: the interface as this configuration serves it.
 *
 * The document is made once, beside the start and not before it: the schemas of answers are read for it only.
 */
export function interfaceHandler(settings: InterfaceSettings): Handler<OpenApi> {
  const made = makeDocument(settings);
  // Told to whoever asks for it.
  made.catch(() => undefined);
  return async () => ({ status: 200, content: await made });
}

async function makeDocument(settings: InterfaceSettings): Promise<Content> {
  const { interfaceDocument } = await import('./openapi/document.js');
  const bytes = Buffer.from(JSON.stringify(interfaceDocument(settings)));
  return { type: 'application/json', bytes, immutable: false };
}
