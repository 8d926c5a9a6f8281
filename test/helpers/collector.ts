import { serveHttp } from './http.js';

/** A span as the collector received it. */
interface CollectedSpan {
  readonly traceId: string;
  readonly spanId: string;
  readonly parentSpanId: string | undefined;
  readonly name: string;
  /** 1 internal, 2 server, 3 client. */
  readonly kind: number;
  readonly start: bigint;
  readonly end: bigint;
  readonly failed: boolean;
  readonly attributes: Readonly<Record<string, unknown>>;
}

interface Attribute {
  readonly key: string;
  readonly value: Readonly<Record<string, unknown>>;
}

interface RawSpan {
  readonly traceId: string;
  readonly spanId: string;
  readonly parentSpanId?: string;
  readonly name: string;
  readonly kind: number;
  readonly startTimeUnixNano: string;
  readonly endTimeUnixNano: string;
  readonly status?: { readonly code?: number };
  readonly attributes?: readonly Attribute[];
}

interface Payload {
  readonly resourceSpans: readonly {
    readonly resource: { readonly attributes: readonly Attribute[] };
    readonly scopeSpans: readonly { readonly spans: readonly RawSpan[] }[];
  }[];
}

/**
 * Starts an OTLP/HTTP collector for JSON that records its spans. With `answers: false` it never
 * responds.
 */
export async function startCollector(t: { teardown: (fn: () => void) => void }, answers = true) {
  const spans: CollectedSpan[] = [];
  const bodies: string[] = [];
  const resources: Readonly<Record<string, unknown>>[] = [];
  const seen = { requests: 0 };
  const { url } = await serveHttp(t, (req, res) => {
    seen.requests += 1;
    if (!answers) return;
    const chunks: Buffer[] = [];
    req.on('data', (chunk: Buffer) => chunks.push(chunk));
    req.on('end', () => {
      const body = Buffer.concat(chunks).toString();
      if (req.method !== 'POST' || req.url !== '/v1/traces') {
        res.writeHead(404).end();
        return;
      }
      bodies.push(body);
      for (const { resource, scopeSpans } of (JSON.parse(body) as Payload).resourceSpans) {
        resources.push(valuesOf(resource.attributes));
        for (const scope of scopeSpans) spans.push(...scope.spans.map(collected));
      }
      res.writeHead(200, { 'Content-Type': 'application/json' }).end('{}');
    });
  });
  const ofTrace = (traceId: string) => spans.filter((span) => span.traceId === traceId);
  return { url, spans, bodies, resources, seen, ofTrace };
}

function collected(span: RawSpan): CollectedSpan {
  return {
    traceId: span.traceId,
    spanId: span.spanId,
    parentSpanId: span.parentSpanId,
    name: span.name,
    kind: span.kind,
    start: BigInt(span.startTimeUnixNano),
    end: BigInt(span.endTimeUnixNano),
    failed: span.status?.code === 2,
    attributes: valuesOf(span.attributes ?? []),
  };
}

function valuesOf(attributes: readonly Attribute[]): Record<string, unknown> {
  return Object.fromEntries(attributes.map(({ key, value }) => [key, Object.values(value)[0]]));
}
