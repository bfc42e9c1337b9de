import { createPublicKey, generateKeyPairSync } from "node:crypto";
import { generateJwt } from "@coinbase/cdp-sdk/auth";
import { decodeJwt, decodeProtectedHeader, jwtVerify } from "jose";
import { expect, test } from "vitest";
import { Facilitators } from "../../../../services/x402-gateway/facilitator/pool.ts";
import { eventually } from "../../../../shared/dev/wait.ts";
import { Secret } from "../../../../shared/platform/crypto/secret.ts";
import { systemClock } from "../../../../shared/platform/time/clock.ts";
import { useEnds } from "../../../fixtures/ends.ts";
import { recordingLog } from "../../../support/recording-log.ts";
import { PAYER, payingClient, startFaultyFacilitator } from "./faulty-facilitator.ts";

const KEY_ID = "organizations/0f0f/apiKeys/1e1e";
const REQUEST = { x402Version: 2, paymentPayload: {}, paymentRequirements: {} } as const;
const KIND = { scheme: "exact", network: "eip155:84532" };

function ed25519() {
  const { privateKey, publicKey } = generateKeyPairSync("ed25519");
  const { d = "", x = "" } = privateKey.export({ format: "jwk" });
  const bytes = Buffer.concat([Buffer.from(d, "base64url"), Buffer.from(x, "base64url")]);
  return { secret: bytes.toString("base64"), publicKey };
}

function es256() {
  const { privateKey } = generateKeyPairSync("ec", { namedCurve: "P-256" });
  const publicKey = createPublicKey(privateKey);
  return { secret: privateKey.export({ format: "pem", type: "pkcs8" }) as string, publicKey };
}

const ends = useEnds();

/** Returns the bearer tokens that a facilitator received with each operation. */
async function tokensSent(secret: string) {
  const its = await startFaultyFacilitator();
  const log = recordingLog();
  const cdp = { key_id: new Secret(KEY_ID), key_secret: new Secret(secret) };
  const facilitators = new Facilitators({
    facilitators: [{ url: its.url, headers: { "x-of-ours": new Secret("a") }, cdp }],
    ...{ authorize: undefined, verifyTimeoutMs: 5000, settleTimeoutMs: 5000, clock: systemClock, log },
  });
  ends.defer(() => its.close());
  ends.defer(() => facilitators.close());
  void facilitators.start();
  await eventually("it is known", () => facilitators.available()[0]?.ok);
  await facilitators.judge(REQUEST, KIND, payingClient(PAYER));
  await facilitators.settle(REQUEST, its.url);
  const { host } = new URL(its.url);
  const sent = its.asked.map(({ method, path, headers }) => {
    expect(headers["x-of-ours"]).toBe("a");
    const [scheme, token = ""] = String(headers.authorization).split(" ");
    expect(scheme).toBe("Bearer");
    return { requestMethod: method, requestPath: path, requestHost: host, token };
  });
  expect(sent.map(({ requestPath }) => requestPath)).toEqual([
    "/base/supported",
    "/base/verify",
    "/base/settle",
  ]);
  for (const { token } of sent) expect(log.text()).not.toContain(token);
  return sent;
}

test.each([
  ["an Ed25519 key", ed25519()],
  ["an ES256 key", es256()],
])(
  "each request to CDP is signed with %s as Coinbase's SDK signs it",
  async (_what, { secret, publicKey }) => {
    const sent = await tokensSent(secret);
    for (const { token, ...request } of sent) {
      const theirs = await generateJwt({ apiKeyId: KEY_ID, apiKeySecret: secret, ...request });
      const { iat = 0, nbf, exp, ...claims } = decodeJwt(token);
      const { iat: _iat, nbf: _nbf, exp: _exp, ...theirClaims } = decodeJwt(theirs);
      expect(claims).toEqual(theirClaims);
      expect({ nbf, exp }).toEqual({ nbf: iat, exp: iat + 120 });
      expect(Math.abs(iat - Date.now() / 1000)).toBeLessThan(30);

      const { nonce, ...header } = decodeProtectedHeader(token) as { nonce: string };
      const { nonce: theirNonce, ...theirHeader } = decodeProtectedHeader(theirs) as { nonce: string };
      expect(header).toEqual(theirHeader);
      expect(nonce).toMatch(/^[0-9a-f]{32}$/);
      expect(theirNonce).toHaveLength(nonce.length);
      for (const jwt of [token, theirs]) await jwtVerify(jwt, publicKey, { issuer: "cdp", subject: KEY_ID });
    }
    const nonces = sent.map(({ token }) => decodeProtectedHeader(token)["nonce"]);
    expect(new Set(nonces).size).toBe(sent.length);
  },
);

test("a PEM key signs correctly if its line breaks are written as \\n or it has the older form of EC keys", async () => {
  const { secret, publicKey } = es256();
  for (const written of [secret.trim().replaceAll("\n", "\\n"), secret]) {
    for (const { token } of await tokensSent(written)) await jwtVerify(token, publicKey);
  }
  const { privateKey } = generateKeyPairSync("ec", { namedCurve: "P-256" });
  const sec1 = privateKey.export({ format: "pem", type: "sec1" }) as string;
  for (const { token } of await tokensSent(sec1)) await jwtVerify(token, createPublicKey(privateKey));
});
