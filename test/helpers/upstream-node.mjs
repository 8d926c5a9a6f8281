// An upstream in its own process, to be killed. It records each request in a file before it
// responds.
import { appendFileSync } from 'node:fs';
import { createServer } from 'node:http';

const [port, file] = process.argv.slice(2);
const server = createServer((req, res) => {
  appendFileSync(file, `${req.method} ${req.url}\n`);
  req.resume().on('end', () => setTimeout(() => res.end('ok'), 2));
});
server.listen(Number(port), '127.0.0.1', () => process.stdout.write('listening\n'));
