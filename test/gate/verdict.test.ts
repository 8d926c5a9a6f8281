import t from 'tap';
import { refuseCrossOrigin } from '../../src/gate/verdict.js';
import type { RequestHead } from '../../src/http/head.js';
import { forEachRow } from '../helpers/table.js';

t.test('an Origin is one’s own if it has the scheme, host and port that the client requested', (t) => {
  forEachRow(
    [
      ['https://api.example', 'api.example', true, true],
      ['https://api.example', 'API.example:443', true, true],
      ['https://api.example:8443', 'api.example:8443', true, true],
      // Whoever is on the network can write a page over http.
      ['http://api.example', 'api.example', true, false],
      ['http://api.example', 'api.example:80', true, false],
      ['http://api.example', 'api.example', false, true],
      ['http://api.example', 'api.example:80', false, true],
      // A proxy that is not trusted may have ended TLS.
      ['https://api.example', 'api.example', false, true],
      ['https://api.example', 'api.example:80', false, false],
      ['https://api.example.evil', 'api.example', false, false],
      ['https://api.example', '', false, false],
      ['null', 'null', false, false],
    ] as const,
    ([origin, host, secure, isOwn]) => {
      const head = { method: 'POST', webSocket: null, origin, client: { host, secure } };
      const refusal = refuseCrossOrigin(head as unknown as RequestHead);
      t.equal(refusal === undefined, isOwn, `${origin} at ${host}, ${secure ? 'TLS' : 'plain'}`);
    },
  );
  t.end();
});
