// An OpenID provider on loopback, with one client, whose people log in with any password. It prints its issuer as its first line.
import { createServer } from 'node:http';
import { Provider } from 'oidc-provider';

const people = new Map();
const server = createServer();
server.listen(0, '127.0.0.1', () => {
  const issuer = `http://127.0.0.1:${server.address().port}`;
  const provider = new Provider(issuer, {
    clients: [{
      client_id: 'kapis',
      client_secret: process.env.CLIENT_SECRET,
      redirect_uris: [process.env.CALLBACK],
      post_logout_redirect_uris: [process.env.LOGOUT],
      grant_types: ['authorization_code', 'refresh_token'],
      response_types: ['code'],
      token_endpoint_auth_method: process.env.AUTH_METHOD,
    }],
    cookies: { keys: [process.env.CLIENT_SECRET] },
    claims: {
      openid: ['sub'],
      email: ['email', 'email_verified'],
      profile: ['name', 'preferred_username', 'locale'],
      groups: ['groups'],
    },
    features: { devInteractions: { enabled: true } },
    issueRefreshToken: async () => true,
    findAccount: async (ctx, id) => (people.get(id) === 'gone' ? undefined : {
      accountId: id,
      claims: async () => ({
        sub: id,
        email: `${id}@example.com`,
        email_verified: true,
        name: `Person ${id}`,
        preferred_username: id,
        locale: 'zh-CN',
        groups: ['staff', 'system:masters', people.get(id) ?? 'newcomers'],
      }),
    }),
  });
  const serve = provider.callback();
  server.on('request', (req, res) => {
    const set = req.method === 'PUT' && /^\/people\/([a-z]+)\/([a-z]+)$/.exec(req.url);
    if (!set) {
      serve(req, res);
      return;
    }
    people.set(set[1], set[2]);
    res.end();
  });
  console.log(issuer);
});
