// Responds with the identity headers that it receives. The API needs no code for credentials.
import { createServer } from 'node:http';

const server = createServer(({ method, url, headers }, res) => {
  const told = Object.fromEntries(Object.entries(headers).filter(([name]) => name.startsWith('x-auth-')));
  res.writeHead(200, { 'Content-Type': 'application/json' }).end(JSON.stringify({ method, url, ...told }));
});
server.listen(Number(process.env.PORT), () => console.log('the API listens on', server.address().port));
