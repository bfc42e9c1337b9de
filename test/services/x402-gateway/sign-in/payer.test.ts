import { beforeEach, expect, test } from "vitest";
import { useX402 } from "../../../fixtures/x402.ts";
import { newPayer } from "../../../support/devnet.ts";
import type { Answer } from "../../../support/http.ts";
import { onlyInLongRun, sample } from "../../../support/long-run.ts";
import { type SignInExtension, signInAs } from "../../../support/sign-in.ts";
import { type Bought, buyCall } from "./bought.ts";
import { type SignInServer, useSignInServers } from "./sign-in-server.ts";

const fixture = useX402();
const startServer = useSignInServers();
let server: SignInServer;
let bought: Bought;
let asked: SignInExtension;

beforeEach(async () => {
  server = await startServer({ devnet: fixture.devnet, redisUrl: fixture.redis.url });
  bought = await buyCall(fixture);
  asked = await server.askedFor(bought.id);
});

/** Returns the parts of a refusal that the client sees. */
const refusalIn = (answer: Answer) => [answer.status, answer.json()["code"], answer.json()["detail"]];
const refused = (detail: string) => [402, "result.sign_in_required", detail];

/** Returns the answer to the payer's sign-in with these changes. */
async function answerTo(changes: Omit<Parameters<typeof signInAs>[1], "payer">): Promise<Answer> {
  return server.request(bought.id, await signInAs(asked, { payer: bought.payer, ...changes }));
}

test("the payer of a call signs in with the official client's signature", async () => {
  expect((await answerTo({})).status).toBe(200);
});

test("the answer for a call that was never paid for asks to sign in like any other, and differs only in its id and nonce", async () => {
  const nobodys = `c_${"0".repeat(32)}`;
  const comparable = (id: string, answer: Answer) => {
    const body = answer.json<{ extensions: { "sign-in-with-x": SignInExtension } }>();
    const { info } = body.extensions["sign-in-with-x"];
    const { nonce, issuedAt, expirationTime, ...terms } = info;
    expect(nonce).toMatch(/^[0-9a-f]{108}$/);
    expect(Date.parse(String(expirationTime)) - Date.parse(issuedAt)).toBe(5 * 60_000);
    body.extensions["sign-in-with-x"] = { ...body.extensions["sign-in-with-x"], info: terms as typeof info };
    return JSON.stringify(body).replaceAll(id, "ID");
  };
  const [one, other] = [await server.request(bought.id), await server.request(nobodys)];
  expect([one.status, other.status]).toEqual([402, 402]);
  expect(comparable(nobodys, other)).toBe(comparable(bought.id, one));
  expect(one.json()).toMatchObject({
    x402Version: 2,
    accepts: [],
    code: "result.sign_in_required",
    status: 402,
  });
  expect(asked.info).toMatchObject({
    domain: "pay.test",
    uri: `http://pay.test/x402/calls/${bought.id}/result`,
  });
});

onlyInLongRun(() => {
  test("the payer signs in with the address in any letter case, unless the case breaks its checksum", async () => {
    const { payer, id } = bought;
    const lower = payer.address.toLowerCase() as `0x${string}`;
    for (const address of [lower, `0x${lower.slice(2).toUpperCase()}`]) {
      const again = await server.askedFor(id);
      const header = await signInAs(again, { payer, sent: { address } });
      expect((await server.request(id, header)).status).toBe(200);
    }
    const broken = `0x${payer.address.slice(2).replace(/[a-f]/, (letter) => letter.toUpperCase())}`;
    const swapped =
      broken === payer.address ? lower.replace(/[a-f]/, (letter) => letter.toUpperCase()) : broken;
    expect(refusalIn(await answerTo({ sent: { address: swapped } }))).toEqual(
      refused("address: must have a valid EIP-55 checksum"),
    );
  });

  test("a key's signature that ends with 0 or 1, as some hardware wallets write it, is accepted", async () => {
    const header = await signInAs(asked, { payer: bought.payer });
    const said = JSON.parse(Buffer.from(header["SIGN-IN-WITH-X"], "base64").toString());
    const bare = said.signature.replace(/1b$/, "00").replace(/1c$/, "01");
    expect(bare).not.toBe(said.signature);
    expect((await answerTo({ sent: { signature: bare } })).status).toBe(200);
  });
});

const OTHERS_SIGNED = [
  ["domain", { domain: "evil.test" }, 'domain: must be "pay.test"'],
  [
    "uri",
    { uri: "http://pay.test/x402/calls/c_other/result" },
    /^uri: must be "http:\/\/pay.test\/x402\/calls\/c_/,
  ],
  ["uri with a query", { uri: "http://pay.test/x402?token=x" }, /^uri: must be /],
  ["statement", { statement: "I pay." }, /^statement: must be /],
  ["chain", { chainId: "eip155:1" }, "chainId: must be one of supportedChains"],
] as const;
test.each(sample(OTHERS_SIGNED))(
  "a sign-in that was signed for another %s is refused",
  async (_what, signed, detail) => {
    expect(refusalIn(await answerTo({ signed }))).toEqual([
      402,
      "result.sign_in_required",
      detail instanceof RegExp ? expect.stringMatching(detail) : detail,
    ]);
  },
);

const UNREADABLE = [
  ["a chain of another family", { chainId: "solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp" }, /^chainId: /],
  ["another type of signature", { type: "ed25519" }, /^type: must be "eip191"/],
  ["another version", { version: "2" }, /^version: must be "1"/],
  ["an invalid time", { issuedAt: "yesterday" }, /^issuedAt: must be an RFC 3339 time/],
  ["an invalid day", { issuedAt: "2026-13-40T00:00:00Z" }, /^issuedAt: must be an RFC 3339 time/],
  [
    "a line break in a time",
    { notBefore: "2026-01-01T00:00:00Z\nRequest ID: 1" },
    /^notBefore: must be an RFC 3339 time/,
  ],
  ["a request id", { requestId: "1" }, /requestId/],
  ["resources", { resources: ["http://pay.test"] }, /resources/],
  ["no nonce", { nonce: undefined }, "nonce: is missing"],
  ["an empty signature", { signature: "0x" }, /^signature: must be/],
  ["a signature of 4,097 bytes", { signature: `0x${"ab".repeat(4097)}` }, /^signature: is over 4096 bytes/],
] as const;
test.each(sample(UNREADABLE))(
  "a sign-in with %s is refused before anything is looked up",
  async (_what, sent, detail) => {
    expect(refusalIn(await answerTo({ sent }))).toEqual([
      402,
      "result.sign_in_required",
      expect.stringMatching(detail instanceof RegExp ? detail : new RegExp(`^${detail}$`)),
    ]);
  },
);

test("a header is refused if it is too long, is not base64, JSON or an object, or is sent twice", async () => {
  const good = (await signInAs(asked, { payer: bought.payer }))["SIGN-IN-WITH-X"];
  const encoded = (text: string) => Buffer.from(text).toString("base64");
  const details = [];
  for (const header of [
    "A".repeat(14 * 1024 + 4),
    "?",
    encoded("hello"),
    encoded("[".repeat(65)),
    encoded("[]"),
    "",
  ])
    details.push((await server.request(bought.id, { "SIGN-IN-WITH-X": header })).json()["detail"]);
  details.push(
    (await server.request(bought.id, ["SIGN-IN-WITH-X", good, "Sign-In-With-X", good])).json()["detail"],
  );
  expect(details).toEqual([
    "the header is over 14336 bytes",
    "the header is not base64",
    "the header contains text that is not JSON in UTF-8",
    "the header contains text that is nested more than 64 levels deep",
    "the header does not contain a JSON object",
    "the header is not base64",
    "the header was sent more than once",
  ]);
});

test("a stranger is refused under their own address, under the payer's, and with the payer's sign-in to another call", async () => {
  const stranger = await newPayer(fixture.devnet, 0n);
  const { payer, id } = bought;
  const himself = await server.request(id, await signInAs(asked, { payer: stranger }));
  expect(refusalIn(himself)).toEqual(refused("address: must be that of the call's payer"));
  const asPayer = { payer: { ...stranger, address: payer.address } };
  const forged = await server.request(id, await signInAs(asked, asPayer));
  expect(refusalIn(forged)).toEqual(refused("signature: must be by the payer's key"));
  const other = await buyCall(fixture);
  const elsewhere = await server.request(id, await signInAs(await server.askedFor(other.id), { payer }));
  expect(elsewhere.status).toBe(402);
  const { uri } = asked.info;
  const moved = await signInAs(await server.askedFor(other.id), { payer, signed: { uri } });
  expect(refusalIn(await server.request(id, moved))).toEqual(
    refused("nonce: was not issued by this gateway for this call"),
  );
});

onlyInLongRun(() => {
  test("the message that is sent must be exactly the message that was signed", async () => {
    const { issuedAt } = asked.info;
    const later = new Date(Date.parse(issuedAt) + 1).toISOString();
    for (const sent of [
      { issuedAt: later },
      { issuedAt: issuedAt.replace("Z", "+00:00") },
      { expirationTime: undefined },
      { notBefore: issuedAt },
    ])
      expect(refusalIn(await answerTo({ sent }))).toEqual(refused("signature: must be by the payer's key"));
    expect((await answerTo({})).status).toBe(200);
  });

  test("a client may leave out the expiration, send a signature scheme, and have a clock that is off by two minutes", async () => {
    const off = (ms: number) => new Date(Date.now() + ms).toISOString();
    for (const minutes of [-2, 2]) {
      asked = await server.askedFor(bought.id);
      const times = { issuedAt: off(minutes * 60_000), notBefore: off(minutes * 60_000) };
      const signed = { ...times, expirationTime: off((minutes + 1) * 60_000) };
      expect((await answerTo({ signed })).status).toBe(200);
    }
    asked = await server.askedFor(bought.id);
    const answer = await answerTo({
      signed: { expirationTime: undefined },
      sent: { signatureScheme: "eip191" },
    });
    expect(answer.status).toBe(200);
  });
});

const TIMES = [
  [
    "signed before its nonce was made",
    { issuedAt: "2020-01-01T00:00:00Z" },
    "issuedAt: does not match the time of its nonce",
  ],
  [
    "signed in the far future",
    { issuedAt: "2099-01-01T00:00:00Z" },
    "issuedAt: does not match the time of its nonce",
  ],
  ["valid until long ago", { expirationTime: "2020-01-01T00:00:00Z" }, "expirationTime: is in the past"],
  ["valid from much later", { notBefore: "2099-01-01T00:00:00Z" }, "notBefore: is in the future"],
] as const;
onlyInLongRun(() => {
  test.each(TIMES)("a sign-in is refused if it is %s", async (_when, signed, detail) => {
    expect(refusalIn(await answerTo({ signed }))).toEqual(refused(detail));
  });
});
