// A client of an OpenID provider. It says what a person has to do, a line each, reads where the browser ended, and prints what it got
// in the end, as JSON.
import { createInterface } from 'node:readline/promises';
import * as client from 'openid-client';

const { ISSUER, CLIENT_ID, CLIENT_SECRET, REDIRECT_URI, LOGOUT_URI } = process.env;
const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]();
const ask = async (what) => {
  console.log(what);
  return (await lines.next()).value;
};

const config = await client.discovery(new URL(ISSUER), CLIENT_ID, undefined, client.ClientSecretBasic(CLIENT_SECRET));
client.enableNonRepudiationChecks(config); // the signature of the ID token is verified, which came over TLS
const scope = 'openid profile email offline_access';

const pkceCodeVerifier = client.randomPKCECodeVerifier();
const expectedState = client.randomState();
const expectedNonce = client.randomNonce();
const to = client.buildAuthorizationUrl(config, {
  redirect_uri: REDIRECT_URI,
  scope,
  state: expectedState,
  nonce: expectedNonce,
  max_age: '3600',
  code_challenge: await client.calculatePKCECodeChallenge(pkceCodeVerifier),
  code_challenge_method: 'S256',
});
const landed = new URL(await ask(to.href));
const tokens = await client.authorizationCodeGrant(config, landed, { pkceCodeVerifier, expectedState, expectedNonce, maxAge: 3600 });
const claims = tokens.claims();
const info = await client.fetchUserInfo(config, tokens.access_token, claims.sub);
const next = await client.refreshTokenGrant(config, tokens.refresh_token);
const seen = await client.tokenIntrospection(config, next.access_token);

const device = await client.initiateDeviceAuthorization(config, { scope });
await ask(device.user_code);
const ofDevice = await client.pollDeviceAuthorizationGrant(config, { ...device, interval: 1 });

await client.tokenRevocation(config, ofDevice.refresh_token);
const revoked = await client.tokenIntrospection(config, ofDevice.access_token);
const own = await client.clientCredentialsGrant(config);
const bye = client.buildEndSessionUrl(config, { id_token_hint: next.id_token, post_logout_redirect_uri: LOGOUT_URI, state: 'bye' });
await ask(bye.href);
const over = await client.tokenIntrospection(config, next.access_token);
console.log(JSON.stringify({
  name: claims.preferred_username,
  email: info.email,
  refreshed: next.claims().sub === claims.sub && next.refresh_token !== tokens.refresh_token,
  device: ofDevice.claims().sub === claims.sub,
  active: seen.active,
  revoked: !revoked.active,
  over: !over.active,
  own: own.token_type,
}));
process.exit(0);
