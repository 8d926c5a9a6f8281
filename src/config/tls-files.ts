import { createPrivateKey, X509Certificate } from 'node:crypto';
import { readFileSync } from 'node:fs';

type Key = 'ca' | 'cert' | 'key';

/** What is wrong with the files of a TLS client, each with the setting that names it. No content of a file is shown. */
export function tlsFileFaults(files: Readonly<Record<Key, string | null>>): [Key, string][] {
  const faults: [Key, string][] = [];
  const text = (key: Key): string | undefined => {
    const file = files[key];
    if (file === null) return undefined;
    try {
      return readFileSync(file, 'utf8');
    } catch (error) {
      const code = (error as NodeJS.ErrnoException).code ?? 'unknown error';
      faults.push([
        key,
        code === 'ENOENT' ? `there is no file ${file}` : `${file} can not be read (${code})`,
      ]);
      return undefined;
    }
  };
  const certificates = (key: 'ca' | 'cert'): X509Certificate[] => {
    const pem = text(key);
    const found = pem === undefined ? [] : certificatesOf(pem);
    if (found === undefined || (pem !== undefined && found.length === 0))
      faults.push([key, `${files[key]} holds no certificate in PEM form, or a broken one`]);
    return found ?? [];
  };
  certificates('ca');
  const [certificate] = certificates('cert');
  const pem = text('key');
  const key = pem === undefined ? undefined : privateKeyOf(pem);
  if (pem !== undefined && key === undefined) {
    faults.push(['key', `${files.key} holds no private key in PEM form, or one with a passphrase`]);
  }
  if (files.cert !== null && files.key === null)
    faults.push(['cert', 'a certificate needs its key; set key']);
  if (files.key !== null && files.cert === null)
    faults.push(['key', 'a key needs its certificate; set cert']);
  if (certificate !== undefined && key !== undefined && !certificate.checkPrivateKey(key)) {
    faults.push(['key', `${files.key} is not the key of the certificate in ${files.cert}`]);
  }
  return faults;
}

function certificatesOf(pem: string): X509Certificate[] | undefined {
  try {
    const blocks = pem.match(/-----BEGIN (?:TRUSTED )?CERTIFICATE-----[\s\S]*?-----END (?:TRUSTED )?CERTIFICATE-----/g);
    return (blocks ?? []).map((block) => new X509Certificate(block));
  } catch {
    return undefined;
  }
} // prettier-ignore

function privateKeyOf(pem: string) {
  try {
    return createPrivateKey(pem);
  } catch {
    return undefined;
  }
}
