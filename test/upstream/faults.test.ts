import t from 'tap';
import { causeOf } from '../../src/upstream/faults.js';

t.test('the cause of a failure has its code, and a remedy if there is one', (t) => {
  const rows = [
    ['ECONNREFUSED', 'connect ECONNREFUSED 127.0.0.1:1', 'connect ECONNREFUSED 127.0.0.1:1'],
    ['E', '', 'E'],
    ['E', 'text', 'E: text'],
    [
      'ERR_SSL_WRONG_VERSION_NUMBER',
      '800C29EB1B7F0000:error:0A00010B:SSL routines:ssl3_get_record:wrong version number:../ssl3_record.c:355:\n',
      'ERR_SSL_WRONG_VERSION_NUMBER: wrong version number; the upstream does not speak TLS; write http:// in its URL',
    ],
    [
      'DEPTH_ZERO_SELF_SIGNED_CERT',
      'self-signed certificate',
      'DEPTH_ZERO_SELF_SIGNED_CERT: self-signed certificate; no known authority signed its certificate; set tls.ca of the upstream',
    ],
  ] as const;
  for (const [code, message, cause] of rows)
    t.equal(causeOf(Object.assign(new Error(message), { code })), cause);
  // Node's error when every address of a host name fails.
  const addresses = ['connect ECONNREFUSED 127.0.0.1:1', 'connect ECONNREFUSED ::1:1'];
  const all = new AggregateError(addresses.map((message) => new Error(message)));
  t.equal(causeOf(Object.assign(all, { code: 'ECONNREFUSED' })), addresses.join('; '));
  t.end();
});
