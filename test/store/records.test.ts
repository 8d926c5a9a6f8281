import t from 'tap';
import {
  CUSTOMER,
  encode,
  type Kind,
  RECORD_VERSION,
  SERVICE,
  SESSION,
  SESSION_USE,
  SIGNING_KEYS,
  SUDO,
  TOKEN,
  USE,
  USER,
} from '../../src/store/core/kinds.js';
import { StoreUnavailable } from '../../src/store/faults.js';
import { session, token, user } from './contract/records.js';

const KEY = { kid: 'K1', algorithm: 'EdDSA', sealedKey: 'v1.a.b', signsFrom: 0 };
/** Returns the decoder of last uses, of which a damaged one is like none. */
const readUse =
  ({ name, decode }: Kind<unknown>) =>
  (stored: unknown) => {
    const use = decode(stored);
    if (use === null) throw new StoreUnavailable(`a ${name} record is damaged`);
    return use;
  };

/** Each kind of record: its decoder, a value, and the members that it must have. */
const KINDS: [string, (stored: unknown) => unknown, object, string[]][] = [
  ['user', USER.decode, user('U1'), Object.keys(user('U1'))],
  ['customer', CUSTOMER.decode, { id: 'C1', name: 'One' }, ['id', 'name']],
  ['service', SERVICE.decode, { id: 'S1', customerId: 'C1', name: 'www' }, ['id', 'customerId', 'name']],
  ['token', TOKEN.decode, token('T1'), Object.keys(token('T1'))],
  ['use', readUse(USE), { at: 0, ip: '::1', userAgent: null }, ['at', 'ip', 'userAgent']],
  ['session', SESSION.decode, session('D1'), Object.keys(session('D1'))],
  ['sudo', SUDO.decode, { until: 1 }, ['until']],
  ['signing_keys', SIGNING_KEYS.decode, { revision: 1, keys: [KEY] }, ['revision', 'keys']],
];

/** Returns why a record cannot be decoded; undefined if it can. */
function faultOf(read: () => unknown): string | undefined {
  try {
    read();
    return undefined;
  } catch (error) {
    if (error instanceof StoreUnavailable) return error.message;
    throw error;
  }
}

t.test('decodes each kind of record completely, or refuses it', async (t) => {
  for (const [kind, read, value, required] of KINDS) {
    const stored = encode(value);
    const damaged = `a ${kind} record is damaged`;
    t.same(read(JSON.parse(JSON.stringify(stored))), value, kind);
    for (const name of required) {
      const { [name]: _, ...rest } = stored as Record<string, unknown>;
      t.equal(faultOf(() => read(rest)), damaged, `${kind} without ${name}`);
    }
    for (const broken of [null, undefined, 'text', 1, [], { ...stored, v: '1' }, value])
      t.equal(faultOf(() => read(broken)), damaged, `${kind}: ${JSON.stringify(broken)}`);
    const newer = `a ${kind} record has version 2; this Latchkey reads up to 1`;
    t.equal(faultOf(() => read({ ...stored, v: RECORD_VERSION + 1 })), newer);
  }
}); // prettier-ignore

/** Members that decide, are sent, or are shown, each with the types that it may have. */
const TYPES: [string, (stored: unknown) => unknown, object, Record<string, string>][] = [
  ['user', USER.decode, user('U1'), {
    id: 'text', customerId: 'text', role: 'text', login: 'text', name: 'text', locked: 'flag', passwordHash: 'text null',
    otpSecret: 'text null', createdAt: 'time', updatedAt: 'time',
  }],
  ['customer', CUSTOMER.decode, { id: 'C1', name: 'One' }, { id: 'text', name: 'text' }],
  ['service', SERVICE.decode, { id: 'S1', customerId: 'C1', name: 'www' }, { id: 'text', customerId: 'text', name: 'text' }],
  ['token', TOKEN.decode, token('T1'), {
    id: 'text', userId: 'text', digest: 'text', name: 'text', scopes: 'texts', services: 'texts', serviceId: 'text null',
    expiresAt: 'time null', createdAt: 'time', updatedAt: 'time', kind: '',
  }],
  ['use', readUse(USE), { at: 0, ip: '::1', userAgent: null }, { at: 'time', ip: 'text', userAgent: 'text null' }],
  ['session', SESSION.decode, session('D1', { idleEndsAt: 1 }), {
    id: 'text', digest: 'text', userId: 'text', endsAt: 'time', lastSeenAt: 'time', createdAt: 'time', idleEndsAt: 'time',
    ip: 'text', userAgent: 'text null',
  }],
  ['sudo', SUDO.decode, { until: 1 }, { until: 'time' }],
]; // prettier-ignore

const VALUES: [type: string, values: unknown[]][] = [
  ['text', ['2020-01-01T00:00:00Z']], ['texts', [[], ['S1']]], ['time', [0, 8.64e15]], ['flag', [true, false]],
  ['null', [null]], ['', [[1], ['S1', null], {}, 1e300, -1e300, NaN]],
]; // prettier-ignore

t.test('a member of another type makes a record damaged', async (t) => {
  for (const [kind, read, value, members] of TYPES)
    for (const [name, types] of Object.entries(members))
      for (const [type, values] of VALUES)
        for (const wrong of values) {
          const fault = faultOf(() => read({ ...encode(value), [name]: wrong }));
          const damage = types.split(' ').includes(type) && type !== '' ? undefined : `a ${kind} record is damaged`;
          t.equal(fault, damage, `${kind}.${name}: ${JSON.stringify(wrong)}`);
        }
}); // prettier-ignore

t.test('a member that only some records have is checked too', async (t) => {
  const link = { name: 'sso', issuer: 'https://idp.example', subject: 's', loginAt: 1 };
  const rotated = { to: 'T2', atOnce: true, repeated: true };
  const kinds: [string, (stored: unknown) => unknown, object, Record<string, [valid: unknown[], wrong: unknown[]]>][] = [
    ['user', USER.decode, user('U1'), {
      lockedBy: [['operator'], [true, 'other', null]],
      deletionPending: [[true], [false, 'true', 1, null]],
      rehashOf: [['digest'], [1, null, {}]],
      provider: [[link], [null, 'sso', [], {}, ...Object.keys(link).flatMap((name) => [{ ...link, [name]: undefined }, { ...link, [name]: null }, { ...link, [name]: {} }])]],
    }],
    ['token', TOKEN.decode, token('T1'), {
      declared: [[true], [false, 1, 'true', null]],
      predecessorId: [['T0'], [0, null, {}]],
      rateId: [['T0'], [0, null, {}]],
      rotated: [
        [rotated, { to: 'T2' }],
        [null, true, 'T2', [], {}, { ...rotated, to: null }, { ...rotated, atOnce: false }, { ...rotated, repeated: false }],
      ],
      restrictions: [[{ suspended: true }], [[], null]],
    }],
    ['session_use', readUse(SESSION_USE), { at: 0, ip: '::1', userAgent: null, idleEndsAt: 1 }, { idleEndsAt: [[1], [undefined, 'x', null, 1e300]] }],
    ['session', SESSION.decode, session('D1'), {
      provider: [[{ name: 'sso', sid: 's' }, { name: 'sso', sid: null }], [null, 'sso', [], {}, { name: 'sso' }, { name: 'sso', sid: 1 }, { name: null, sid: 's' }]],
    }],
  ];
  for (const [kind, read, value, members] of kinds)
    for (const [name, [valid, wrong]] of Object.entries(members)) {
      const faultWith = (member: unknown) => faultOf(() => read({ ...value, v: RECORD_VERSION, [name]: member }));
      for (const member of valid) t.equal(faultWith(member), undefined, `${kind}.${name}: ${JSON.stringify(member)}`);
      for (const member of wrong) t.equal(faultWith(member), `a ${kind} record is damaged`, `${kind}.${name}: ${JSON.stringify(member)}`);
    }
}); // prettier-ignore

t.test('decodes no incomplete signing key', async (t) => {
  for (const wrong of [{ kid: 1 }, { algorithm: 'RS256' }, { sealedKey: null }, { signsFrom: 0.5 }])
    t.match(
      faultOf(() => SIGNING_KEYS.decode(encode({ revision: 1, keys: [{ ...KEY, ...wrong }] }))),
      /damaged/,
    );
  t.match(
    faultOf(() => SIGNING_KEYS.decode(encode({ revision: 1.5, keys: [] }))),
    /damaged/,
  );
  t.match(
    faultOf(() => SIGNING_KEYS.decode(encode({ revision: 1, keys: [null] }))),
    /damaged/,
  );
});

t.test('decodes the limits of a token only if it knows all of them', async (t) => {
  const limits = { suspended: true, rate: '600/1m', addresses: ['10.0.0.0/8', '::1'] } as const;
  for (const restrictions of [limits, { suspended: true }, { rate: '1/1s' }, { addresses: ['::1'] }] as const) {
    const stored = JSON.parse(JSON.stringify(encode(token('T1', { restrictions }))));
    t.same(TOKEN.decode(stored), token('T1', { restrictions }));
  }
  t.strictSame(encode(token('T1', { restrictions: undefined })), { ...token('T1'), v: RECORD_VERSION });
  for (const wrong of [null, 'x', { suspended: false }, { suspended: 1 }, { rate: '600' }, { rate: 600 }, { addresses: '10.0.0.0/8' }, { addresses: ['10.0.0.1/8'] }, { addresses: [1] }, { hours: '9-17' }]) {
    const stored = { ...encode(token('T1')), restrictions: wrong };
    t.equal(faultOf(() => TOKEN.decode(stored)), 'a token record is damaged', JSON.stringify(wrong));
  }
}); // prettier-ignore
