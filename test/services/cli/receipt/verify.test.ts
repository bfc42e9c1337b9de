import { generateKeyPairSync } from "node:crypto";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { listen } from "../../../../shared/http/listen.ts";
import { saltedDigest } from "../../../../shared/payments/receipt.ts";
import { sha256Hex } from "../../../../shared/platform/crypto/compare.ts";
import { createSignJws, toJwk } from "../../../../shared/platform/crypto/jws.ts";
import { useEnds } from "../../../fixtures/ends.ts";
import { jsonLines, problemOf } from "../../../fixtures/postern.ts";
import { useX402 } from "../../../fixtures/x402.ts";
import { send } from "../../../support/http.ts";
import { newReceiptKey } from "../../../support/receipt-key.ts";
import { tempDir } from "../../../support/temp-dir.ts";
import { runHere } from "../run-here.ts";

const fixture = useX402();
const ends = useEnds();
const dir = tempDir();
const ISSUER = "https://jobs.example.com";
const salt = "salt";
const HASH = `0x${"1".repeat(64)}`;
const CLAIMS = {
  ...{ iss: ISSUER, iat: 1_770_000_000, call_id: "c_1", service_id: 1, job_index: 7 },
  ...{ network: "eip155:8453", payer: "0x1", transaction: HASH, asset: "0x2", amount: "5", pay_to: "0x3" },
  ...{
    quote_digest: HASH,
    body_digest: saltedDigest(salt, sha256Hex(Buffer.from("hello"))),
    status: "accepted",
  },
};
const [shop, other] = [generateKeyPairSync("ed25519"), generateKeyPairSync("ed25519")];
const signed = (claims: object = CLAIMS, { typ = "payment-receipt+jwt", key = shop.privateKey } = {}) => ({
  jws: createSignJws(key)(typ, claims),
  salt,
});

function file(name: string, content: string | object): string {
  const path = join(dir, name);
  writeFileSync(path, typeof content === "string" ? content : JSON.stringify(content));
  return path;
}

const keys = file("jwks.json", { keys: [toJwk(other.publicKey), toJwk(shop.publicKey)] });
const verifyBy = (set: string, receipt: string | object, ...more: string[]) =>
  runHere(["receipt", "verify", file("receipt", receipt), "--issuer", ISSUER, "--keys", set, ...more]);
const verify = (receipt: string | object, ...more: string[]) => verifyBy(keys, receipt, ...more);

test("a receipt is verified without any network, from the answer, from its receipt and from the JWS alone", async () => {
  const receipt = signed();
  for (const form of [{ call_id: "c_1", signed_receipt: receipt }, receipt, `${receipt.jws}\n`]) {
    const ran = await verify(form, "-o", "json");
    expect(ran.code).toBe(0);
    expect(jsonLines(ran)).toEqual([{ valid: true, type: "payment", claims: CLAIMS }]);
  }
  const shown = await verify(receipt);
  expect(shown.stdout).toMatch(/^the receipt is valid\niss .*jobs\.example\.com\n.*amount +5\n/s);
  expect(shown.stdout).toContain("signed at     2026-02-02T02:40:00");
  expect(await verify(receipt, "--quiet")).toEqual({ code: 0, stdout: "", stderr: "" });
});

test("--content tells whether the receipt is about this content", async () => {
  const content = file("body", "hello");
  expect((await verify(signed(), "--content", content)).code).toBe(0);
  const wrong = await verify(signed(), "--content", file("body2", "hullo"));
  expect([wrong.code, wrong.stdout, wrong.stderr]).toEqual([
    1,
    "",
    expect.stringContaining("does not cover"),
  ]);
  const saltless = await verify(signed().jws, "--content", content);
  expect([saltless.code, saltless.stderr]).toEqual([1, expect.stringContaining("needs the salt")]);
});

test.each([
  [
    "of another shop",
    () => signed({ ...CLAIMS, iss: "https://other.example" }),
    "its issuer is https://other.example",
  ],
  [
    "that another shop signed in this one's name",
    () => signed(CLAIMS, { key: generateKeyPairSync("ed25519").privateKey }),
    "none of the keys has its kid",
  ],
  ["of another type", () => signed(CLAIMS, { typ: "JWT" }), "its type is not that of a receipt"],
  [
    "without an amount",
    () => signed({ ...CLAIMS, amount: undefined }),
    "its claims are not those of a receipt",
  ],
  ["with a changed signature", () => `${signed().jws.slice(0, -8)}AAAAAAAA`, "its signature is wrong"],
  ["that is no receipt", () => ({ call_id: "c_1" }), "has no receipt"],
])("a receipt %s is refused with exit code 1", async (_what, receipt, problem) => {
  const ran = await verify(receipt(), "-o", "json");
  expect([ran.code, ran.stdout, problemOf(ran)["detail"]]).toEqual([1, "", expect.stringContaining(problem)]);
});

test("a receipt of a retired key is valid as long as the key is published, and is refused after that", async () => {
  const receipt = signed();
  const [next, retired] = [toJwk(generateKeyPairSync("ed25519").publicKey), toJwk(shop.publicKey)];
  expect((await verifyBy(file("kept.json", { keys: [next, retired] }), receipt)).code).toBe(0);
  const refused = await verifyBy(file("removed.json", { keys: [next] }), receipt);
  expect([refused.code, refused.stderr]).toEqual([
    1,
    expect.stringContaining("none of the keys has its kid"),
  ]);
});

test("a key is known by its thumbprint, not by the kid that a key set gives it", async () => {
  const renamed = { ...toJwk(other.publicKey), kid: toJwk(shop.publicKey).kid };
  const refused = await verifyBy(file("renamed.json", { keys: [renamed] }), signed());
  expect([refused.code, refused.stderr]).toEqual([
    1,
    expect.stringContaining("none of the keys has its kid"),
  ]);
});

test("the keys are fetched from the issuer alone, which cannot redirect the reader", async () => {
  const own = JSON.stringify({ keys: [toJwk(other.publicKey)] });
  const elsewhere = await listen((_req, res) => res.end(own), "127.0.0.1:0");
  ends.defer(() => elsewhere.close());
  const url = `http://${elsewhere.address}/.well-known/jwks.json`;
  const front = await listen((_req, res) => res.writeHead(302, { Location: url }).end(), "127.0.0.1:0");
  ends.defer(() => front.close());
  const issuer = `http://${front.address}`;
  const forged = file("forged", signed({ ...CLAIMS, iss: issuer }, { key: other.privateKey }));
  const refused = await runHere(["receipt", "verify", forged, "--issuer", issuer]);
  expect([refused.code, refused.stderr]).toEqual([1, expect.stringContaining("cannot get the keys from")]);
});

test("the receipt of a result is verified too, and --content then is the result", async () => {
  const { iss, iat, call_id, service_id, job_index, network, payer, transaction } = CLAIMS;
  const claims = {
    ...{ iss, iat, call_id, service_id, job_index, network, payer, transaction, accepted_at: 1, ended_at: 2 },
    ...{ status: "completed", result_status: 200, result_digest: CLAIMS.body_digest },
  };
  const receipt = signed(claims, { typ: "result-receipt+jwt" });
  const ran = await verify(receipt, "--content", file("result", "hello"), "-o", "json");
  expect([ran.code, jsonLines(ran)]).toEqual([0, [{ valid: true, type: "result", claims }]]);
  const swapped = await verify(signed(claims), "-o", "json");
  expect([swapped.code, problemOf(swapped)["detail"]]).toEqual([
    1,
    expect.stringContaining("its claims are not"),
  ]);
});

test("a receipt of a gateway is verified by the keys that the gateway publishes, and by no other issuer's", async () => {
  const key = newReceiptKey();
  const x402 = await fixture.gateway({ x402: { receipt_keys: key.pem } });
  const local = await fixture.gateway({
    x402: { receipt_keys: key.pem, public_url: `http://${x402.address}` },
  });
  const answer = file("answer.json", (await local.post(await local.pay({ payer: fixture.payer }))).text);
  const fetched = await runHere(["receipt", "verify", answer, "--issuer", `http://${x402.address}/`]);
  expect(fetched).toMatchObject({ code: 0, stdout: expect.stringContaining("status        accepted") });

  const jwks = (await send(x402.address, { method: "GET", path: "/.well-known/jwks.json" })).text;
  const saved = ["--keys", file("saved.json", jwks)];
  const words = ["receipt", "verify", answer, "--issuer"];
  expect((await runHere([...words, `http://${x402.address}`, ...saved])).code).toBe(0);
  const elsewhere = await runHere([...words, "http://127.0.0.1:1", ...saved]);
  expect([elsewhere.code, elsewhere.stderr]).toEqual([1, expect.stringContaining("its issuer is")]);
  const gone = await runHere([...words, "http://127.0.0.1:1"]);
  expect([gone.code, gone.stderr]).toEqual([1, expect.stringContaining("cannot get the keys from")]);
});
