// An upstream that reads a body to its end before it responds. Started with its port.
import { createServer } from 'node:http';

const ANSWER = Buffer.from('{"taken":true}');

createServer({ keepAliveTimeout: 600_000 }, (req, res) => {
  req.resume();
  req.on('end', () => {
    res.writeHead(200, { 'Content-Type': 'application/json', 'Content-Length': ANSWER.length });
    res.end(ANSWER);
  });
}).listen(Number(process.argv[2]), '127.0.0.1', 4096);
