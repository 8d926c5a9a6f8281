import { Command } from 'commander';
import { Passwords } from '../../accounts/passwords.js';
import { passwordFileOption } from '../terminal/options.js';
import { readNewPassword } from '../terminal/password.js';

/** `latchkey hash-password`: prints the `password_hash` of a directory file for a password. */
export function hashPasswordCommand(): Command {
  return new Command('hash-password')
    .description('print the password_hash of a directory file; asks for the password')
    .addOption(passwordFileOption())
    .action(async (options: { passwordFile?: string }) => {
      const password = await readNewPassword(options);
      process.stdout.write(`${await new Passwords(1).hash(password)}\n`);
    });
}
