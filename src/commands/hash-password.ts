import { localHasher } from '../accounts/hasher.js';
import { Passwords } from '../accounts/passwords.js';
import { readNewPassword } from './terminal/password.js';
import { print } from './terminal/print.js';

/** Asks for a password and prints the `password_hash` of a directory file for it. */
export async function hashPassword(options: { passwordFile?: string }): Promise<void> {
  const password = await readNewPassword(options);
  print(`${await new Passwords(localHasher, 1).hash(password)}\n`);
}
