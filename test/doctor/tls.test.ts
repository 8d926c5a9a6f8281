import { readFileSync } from 'node:fs';

import { createServer as createPlain, type RequestListener } from 'node:http';
import { createServer, type ServerOptions } from 'node:https';
import t from 'tap';
import { type Certificate, early, expired, issued, selfSigned } from '../helpers/certificates.js';
import { temporaryFolder } from '../helpers/latchkey.js';
import { nightly } from '../helpers/nightly.js';
import { deployment, diagnose, found, KEY, listenOn } from './deployments.js';

const pem = ({ cert, key }: Certificate) => ({ cert: readFileSync(cert), key: readFileSync(key) });

t.test('TLS', async (t) => {
  const folder = temporaryFolder(t);
  const good = selfSigned(folder, 'localhost');
  const serve = async (options: ServerOptions) => listenOn(t, createServer(options, deployment({})), 'https');
  const summaries = async (url: string, more: object = {}) =>
    (await diagnose(url, { ...more, checks: ['tls'] })).findings.map(({ summary }) => summary);
  const ca = readFileSync(good.cert, 'utf8');

  await t.test('a trusted certificate', async (t) => {
    const url = await serve(pem(good));
    t.same(found(await diagnose(url, { ca })), []);
    t.same(await summaries(url), ['The certificate is not trusted: the certificate is not from a trusted authority (DEPTH_ZERO_SELF_SIGNED_CERT)']);
  });

  await t.test('sends no token to a server with an untrusted certificate', async (t) => {
    let sent = 0;
    const server = createServer(pem(good), (req, res) => {
      if (req.headers['service-key'] === KEY) sent += 1;
      deployment({})(req, res);
    });
    const url = await listenOn(t, server, 'https');
    const report = await diagnose(url, { key: KEY });
    t.match(report.notes, [/certificate is not trusted/]);
    t.equal(sent, 0);
    await diagnose(url, { key: KEY, ca, checks: ['clock'] });
    t.ok(sent > 0);
  });

  await t.test('old versions', nightly, async (t) => {
    const url = await serve({ ...pem(good), minVersion: 'TLSv1', ciphers: 'ALL:@SECLEVEL=0' });
    t.same(await summaries(url, { ca }), ['TLSv1.0 is accepted', 'TLSv1.1 is accepted']);
  });

  await t.test('a server with old versions only', nightly, async (t) => {
    let sent = 0;
    const options = { ...pem(good), minVersion: 'TLSv1', maxVersion: 'TLSv1.1', ciphers: 'ALL:@SECLEVEL=0' } as const;
    const server = createServer(options, (req, res) => {
      if (req.headers['service-key'] !== undefined) sent += 1;
      deployment({})(req, res);
    });
    const report = await diagnose(await listenOn(t, server, 'https'), { ca, key: KEY, checks: ['tls'] });
    t.match(report.findings.map(({ summary }) => summary), ['TLSv1.0 is accepted', 'TLSv1.1 is accepted']);
    t.match([report.notes, sent], [[/TLS 1\.2/], 0], 'no token is sent');
  });

  await t.test('an expired certificate', async (t) => {
    t.match(await summaries(await serve(pem(expired(folder, 'old')))), [/expired on/]);
  });

  await t.test('certificates that expire soon or start later', nightly, async (t) => {
    const near = selfSigned(folder, 'near', ['-days', '5']);
    const trusted = (certificate: Certificate) => ({ ca: readFileSync(certificate.cert, 'utf8') });
    const report = await diagnose(await serve(pem(near)), { ...trusted(near), checks: ['tls'] });
    t.match(report.findings, [{ severity: 'warning', summary: 'The certificate expires in 4 days' }]);
    const later = early(folder, 'later');
    t.match(await summaries(await serve(pem(later)), trusted(later)), [/is not valid before/]);
  });

  await t.test('an expired certificate of its issuer', nightly, async (t) => {
    const authority = expired(folder, 'old-authority');
    const leaf = issued(folder, 'of-old', 'old-authority');
    const chain = { cert: `${readFileSync(leaf.cert, 'utf8')}${readFileSync(authority.cert, 'utf8')}`, key: readFileSync(leaf.key) };
    t.match((await summaries(await serve(chain), { ca: readFileSync(authority.cert, 'utf8') })).join(), /not trusted: the certificate has expired/);
  });

  await t.test('plain HTTP in addition', nightly, async (t) => {
    const url = await serve(pem(good));
    const plain = async (listener: RequestListener) => summaries(url, { ca, plain: new URL(await listenOn(t, createPlain(listener))) });
    t.same(await plain(deployment({})), ['The API is also served without TLS']);
    t.same(await plain((req, res) => res.writeHead(308, { Location: `https://localhost${req.url}` }).end()), []);
  });

  await t.test('a certificate for other names, of an unknown issuer', nightly, async (t) => {
    const other = issued(folder, 'other.example', 'localhost');
    const url = await serve(pem(other));
    t.match(await summaries(url), [/not from a trusted authority/]);
    t.same(await summaries(url, { ca }), ['The certificate is not trusted: the certificate is for another name (ERR_TLS_CERT_ALTNAME_INVALID)']);
  });
}); // prettier-ignore
