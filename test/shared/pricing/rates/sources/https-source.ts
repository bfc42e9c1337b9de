import type { IncomingMessage, RequestListener } from "node:http";
import { createServer } from "node:https";
import type { AddressInfo } from "node:net";

/** Key of a certificate for localhost that only these tests trust. */
const KEY = `-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgUqG6TcjL9z5HW/j+
uqw15GJHS3M8+Jk/4e0DmxbkvrOhRANCAASlpXU1zThw3bIU098Oe+RmQ7ZDYRZ8
hnDEXf9GObkvg/Yi+W7/qHnweK/Tux1DcFVhSOtt8V3+TyIcnWZhG/J3
-----END PRIVATE KEY-----`;

export const CERTIFICATE = `-----BEGIN CERTIFICATE-----
MIIBnDCCAUGgAwIBAgIUGGQB12lU93eoUEMk0lOeA/8dTPUwCgYIKoZIzj0EAwIw
FDESMBAGA1UEAwwJbG9jYWxob3N0MCAXDTI2MTEyMTEyMjIzM1oYDzIxMjYxMDI4
MTIyMjMzWjAUMRIwEAYDVQQDDAlsb2NhbGhvc3QwWTATBgcqhkjOPQIBBggqhkjO
PQMBBwNCAASlpXU1zThw3bIU098Oe+RmQ7ZDYRZ8hnDEXf9GObkvg/Yi+W7/qHnw
eK/Tux1DcFVhSOtt8V3+TyIcnWZhG/J3o28wbTAdBgNVHQ4EFgQU6+Z/OnaedkJG
ocHGlWzchWWJqIYwHwYDVR0jBBgwFoAU6+Z/OnaedkJGocHGlWzchWWJqIYwDwYD
VR0TAQH/BAUwAwEB/zAaBgNVHREEEzARgglsb2NhbGhvc3SHBH8AAAEwCgYIKoZI
zj0EAwIDSQAwRgIhAIL/T6DHsbjvI7x9phWJzDeN1iBbPuyFA6eXm8nuhjjWAiEA
wutRKL6q7RJJ3yw4qlMbM8UyZ4NomKSVIi5WTi8calY=
-----END CERTIFICATE-----`;

/** Starts an https server on this machine, which records its requests. */
export async function startHttps(answer: RequestListener) {
  const requests: IncomingMessage[] = [];
  const server = createServer({ key: KEY, cert: CERTIFICATE }, (req, res) => {
    requests.push(req);
    answer(req, res);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const url = `https://localhost:${(server.address() as AddressInfo).port}`;
  return {
    url,
    requests,
    stop(): void {
      server.closeAllConnections();
      server.close();
    },
  };
}
