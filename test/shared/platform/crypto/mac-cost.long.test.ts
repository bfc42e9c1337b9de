import { createHmac, createSecretKey, randomBytes } from "node:crypto";
import { expect, test } from "vitest";
import { hmacSha256 } from "../../../../shared/platform/crypto/hmac.ts";
import { Secret } from "../../../../shared/platform/crypto/secret.ts";
import { keysFor } from "../../../../shared/webhook-auth/key.ts";
import { macOf } from "../../../../shared/webhook-auth/verifier.ts";

const SECRET = new Secret(randomBytes(32).toString("base64"));
const BODY = randomBytes(300);
const MACS = 2000;

/** Returns the least processor time of several rounds, in microseconds. */
function cost(makeMac: () => Buffer): number {
  const turns = Array.from({ length: 9 }, () => {
    const before = process.cpuUsage();
    for (let i = 0; i < MACS; i++) makeMac();
    const { user, system } = process.cpuUsage(before);
    return user + system;
  });
  return Math.min(...turns);
}

const nodes = createSecretKey(SECRET.bytes());
const [[key] = []] = keysFor([{ algorithm: "hmac-sha256" }], [SECRET]);

test.each([
  ["an endpoint", () => macOf("hmac-sha256", key ?? nodes, BODY)],
  ["a token or an offer", () => hmacSha256(SECRET, BODY)],
])("the MAC of %s takes hardly longer than Node's own", (_, ours) => {
  const own = cost(() => createHmac("sha256", nodes).update(BODY).digest());
  expect(cost(ours) / own).toBeLessThan(2.5);
});
