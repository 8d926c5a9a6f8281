import { certificatesIn, privateKeyIn, type Read, readPem } from './pem.js';

type Key = 'ca' | 'cert' | 'key';

/** What is wrong with the files of a TLS client, each with the setting that names it. No content of a file is shown. */
export function tlsFileFaults(files: Readonly<Record<Key, string | null>>): [Key, string][] {
  const faults: [Key, string][] = [];
  const read = <T>(key: Key, parse: (text: string) => Read<T>): T | undefined => {
    const file = files[key];
    if (file === null) return undefined;
    const text = readPem(file);
    const parsed = 'fault' in text ? text : parse(text.value);
    if ('value' in parsed) return parsed.value;
    faults.push([key, parsed.fault]);
    return undefined;
  };
  read('ca', certificatesIn);
  const certificate = read('cert', certificatesIn)?.[0];
  const key = read('key', privateKeyIn);
  if (files.cert !== null && files.key === null)
    faults.push(['cert', 'a certificate needs its key; set key']);
  if (files.key !== null && files.cert === null)
    faults.push(['key', 'a key needs its certificate; set cert']);
  if (certificate !== undefined && key !== undefined && !certificate.checkPrivateKey(key)) {
    faults.push(['key', 'the key is not the one of the certificate in cert']);
  }
  return faults;
}
