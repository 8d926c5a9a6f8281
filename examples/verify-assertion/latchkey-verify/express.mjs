// Express. Needs: npm install latchkey express
import express from 'express';
import { expressMiddleware, identityOf } from 'latchkey/verify';
import { options, port } from './settings.mjs';

const app = express();
app.use(expressMiddleware(options));

// In a router, req.url is only the rest of the path; the assertion is for the whole target.
const api = express.Router();
api.all('/*path', (req, res) => {
  const { login, role } = identityOf(req);
  res.json({ login, role, headers: req.headers, rawHeaders: req.rawHeaders });
});
app.use('/api', api);

const server = app.listen(port, '127.0.0.1', () => {
  console.log(`listening on http://127.0.0.1:${server.address().port}`);
});
