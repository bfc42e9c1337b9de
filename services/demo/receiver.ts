import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { receiverSecret } from "../../shared/crypto/callback-keys.ts";
import { Secret } from "../../shared/crypto/secret.ts";
import { eventually } from "../../shared/dev/wait.ts";
import type { Shutdown } from "../../shared/lifecycle/run-service.ts";

type Callback = { headers: Record<string, string>; body: string };

/** Somebody's server that wants to be told how calls end. */
export type Receiver = {
  /** `http://host:port` */
  readonly origin: string;
  /** The `[callbacks] secret`, which producers know. */
  readonly callbacksSecret: string;
  /** The receiver's own secret for this path, as `postern callbacks secret` prints it. */
  secretAt(path: string): string;
  /** Resolves once it was told of this call. */
  toldOf(callId: string): Promise<Callback>;
};

export async function startReceiver(shutdown: Shutdown): Promise<Receiver> {
  const told: Callback[] = [];
  const server = createServer(async (req, res) => {
    let body = "";
    for await (const chunk of req.setEncoding("utf8")) body += chunk;
    told.push({ headers: req.headers as Record<string, string>, body });
    res.writeHead(204).end();
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  shutdown.defer("receiver of callbacks", () => {
    server.closeAllConnections();
    server.close();
  });
  const origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const callbacksSecret = `whsec_${randomBytes(32).toString("base64")}`;
  return {
    origin,
    callbacksSecret,
    secretAt: (path) => receiverSecret(new Secret(callbacksSecret), `${origin}${path}`),
    toldOf: (callId) =>
      eventually(`a callback that tells of ${callId}`, () => told.find(({ body }) => body.includes(callId))),
  };
}
