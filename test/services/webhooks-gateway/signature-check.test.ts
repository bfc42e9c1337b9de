import { createHmac, generateKeyPairSync, sign } from "node:crypto";
import type { IncomingMessage } from "node:http";
import { expect, test } from "vitest";
import { createSignatureCheck } from "../../../services/webhooks-gateway/signature-check.ts";
import { Secret } from "../../../shared/platform/crypto/secret.ts";
import { messageOf } from "../../../shared/platform/errors/app-error.ts";
import { PRESETS } from "../../../shared/webhook-auth/presets/presets.ts";
import type { Scheme } from "../../../shared/webhook-auth/signature-scheme.ts";
import { RequestValues } from "../../../shared/webhook-auth/template.ts";

const SECRET = "a secret of one's own";
const URL = "https://hooks.example.com/x";

type Asked = { headers?: string[]; target?: string; body?: string };

const requestOf = ({ headers = [], target = "/x" }: Asked) =>
  ({ method: "POST", url: target, rawHeaders: headers }) as unknown as IncomingMessage;

/** Returns why a request is refused; undefined if its signature is valid. */
function refusal(schemes: readonly Scheme[], asked: Asked, secrets = [SECRET]): string | undefined {
  const options = { publicUrl: URL, clock: () => 0 };
  try {
    const all = secrets.map((secret) => new Secret(secret));
    const check = createSignatureCheck(schemes, all, options);
    const req = requestOf(asked);
    check(req).check(new RequestValues(req, Buffer.from(asked.body ?? "")));
    return undefined;
  } catch (error) {
    return messageOf(error);
  }
}

const mac = (text: string, algorithm = "sha256") => createHmac(algorithm, SECRET).update(text);

const twilio = [PRESETS["twilio"]?.endpoint.signature ?? []].flat();

function asTwilio(fields: number): Asked {
  const names = Array.from({ length: fields }, (_, at) => `f${String(at).padStart(7, "0")}`);
  const signature = mac(URL + names.join(""), "sha1").digest("base64");
  return { headers: ["X-Twilio-Signature", signature], body: names.map((name) => `${name}=`).join("&") };
}

test("a form of up to 1,000 fields is sorted and checked, and a longer one is refused before it is parsed", () => {
  expect(refusal(twilio, asTwilio(1000))).toBeUndefined();
  expect(refusal(twilio, asTwilio(1001))).toBe("malformed: the form has too many fields");
});

test("a form is accepted in both orders of letters beyond the basic plane, and in no other order", () => {
  const fields = { "\u{1F600}": "1", "\uFF5E": "2" };
  const signedAs = (order: readonly (keyof typeof fields)[]): Asked => ({
    headers: ["X-Twilio-Signature", signatureOf(order.map((name) => name + fields[name]).join(""))],
    body: new URLSearchParams({ AccountSid: "AC1", ...fields }).toString(),
  });
  const signatureOf = (text: string) => mac(`${URL}AccountSidAC1${text}`, "sha1").digest("base64");
  expect(refusal(twilio, signedAs(["\u{1F600}", "\uFF5E"]))).toBeUndefined();
  expect(refusal(twilio, signedAs(["\uFF5E", "\u{1F600}"]))).toBeUndefined();
  const { headers = [], body = "" } = signedAs(["\uFF5E", "\u{1F600}"]);
  expect(refusal(twilio, { headers, body: body.replace("=1", "=3") })).toBe("mismatch");
  const before = signatureOf("").slice(0, -1);
  expect(refusal(twilio, { headers: ["X-Twilio-Signature", `${before}=`], body })).toBe("mismatch");
});

test("if a sender does not state where its form begins, the query must equal that of public_url", () => {
  const square = [PRESETS["square"]?.endpoint.signature ?? []].flat();
  const signature = mac(`${URL}?a=1b`).digest("base64");
  const headers = ["x-square-hmacsha256-signature", signature];
  expect(refusal(square, { headers, target: "/x?a=1", body: "b" })).toBe(
    "mismatch: the query differs from that of public_url",
  );
});

const listed: Scheme = { header: "X-S", list: { separator: ",", key: "v1" }, algorithm: "hmac-sha256" };

test("up to 8 signatures of a list are tried, and a longer list is refused", () => {
  const good = `v1=${mac("b").digest("hex")}`;
  const bad = (times: number) => Array(times).fill(`v1=${"0".repeat(64)}`);
  const withItems = (items: string[]) => ({ headers: ["X-S", items.join(",")], body: "b" });
  expect(refusal([listed], withItems([...bad(7), good]))).toBeUndefined();
  expect(refusal([listed], withItems([...bad(8), good]))).toMatch(/^malformed/);
});

const unnamed: Scheme = { header: "X-S", list: { separator: "," }, algorithm: "hmac-sha256" };

test.each<[string, Partial<Scheme>, "hex" | "base64"]>([
  ["hex", {}, "hex"],
  ["base64, whose padding is not a key", { encoding: "base64" }, "base64"],
])(
  "a list item without a key counts as a signature in %s, and one with a key does not",
  (_what, more, encoding) => {
    const scheme = { ...unnamed, ...more };
    const good = mac("b").digest(encoding);
    const other = mac("other").digest(encoding);
    const asked = (value: string) => refusal([scheme], { headers: ["X-S", value], body: "b" });
    expect(asked(`v0=${other},${good}`)).toBeUndefined();
    expect(asked(`${other},${good}`)).toBeUndefined();
    expect(asked(`v0=${good},${other}`)).toBe("mismatch");
    expect(asked(`v0=${good}`)).toMatch(/^malformed/);
    expect(asked(`v0=${other},${good}x`)).toMatch(/^malformed/);
  },
);

const docusign = [PRESETS["docusign"]?.endpoint.signature ?? []].flat();

/** Returns the body's signatures under this many keys. Only the last key is ours. */
function underKeys(keys: number, last: string, body: string): Asked {
  const ofKey = (key: string) => createHmac("sha256", key).update(body).digest("base64");
  const signatures = Array.from({ length: keys }, (_, at) => ofKey(at === keys - 1 ? last : `key ${at}`));
  return { headers: signatures.flatMap((value, at) => [`X-DocuSign-Signature-${at + 1}`, value]), body };
}

test("one valid MAC suffices, even if every header of the scheme holds a signature", () => {
  for (const keys of [1, 9, 100]) expect(refusal(docusign, underKeys(keys, SECRET, "b"))).toBeUndefined();
  expect(refusal(docusign, underKeys(100, "a stranger's", "b"))).toBe("mismatch");
  expect(refusal(docusign, { ...underKeys(100, SECRET, "b"), body: "c" })).toBe("mismatch");
  expect(refusal(docusign, underKeys(101, SECRET, "b"))).toBe("mismatch");
});

const pair = generateKeyPairSync("ed25519");
const WHSEC = `whsec_${Buffer.from(SECRET).toString("base64")}`;
const WHPK = `whpk_${pair.publicKey.export({ format: "der", type: "spki" }).subarray(-32).toString("base64")}`;

test("up to 8 signatures are tried with a public key", () => {
  const headers = Array.from({ length: 9 }, (_, at) => `X-S-${at}`);
  const scheme: Scheme = {
    ...{ header: headers, any_header: true, encoding: "base64" },
    ...{ algorithm: "ed25519", secret_format: "ed25519-whpk" },
  };
  const good = sign(null, Buffer.from("b"), pair.privateKey).toString("base64");
  const bad = sign(null, Buffer.from("c"), pair.privateKey).toString("base64");
  const asked = (count: number): Asked => ({
    headers: headers.slice(0, count).flatMap((name, at) => [name, at === count - 1 ? good : bad]),
    body: "b",
  });
  expect(refusal([scheme], asked(8), [WHPK])).toBeUndefined();
  expect(refusal([scheme], asked(9), [WHPK])).toMatch(/^malformed/);
});

const standard = [PRESETS["standard-webhooks"]?.endpoint.signature ?? []].flat();
const CONTENT = "msg_1.0000000000.b";
const v1 = (content = CONTENT) => `v1,${mac(content).digest("base64")}`;
const v1a = (content = CONTENT) =>
  `v1a,${sign(null, Buffer.from(content), pair.privateKey).toString("base64")}`;
const asStandard = (signature: string): Asked => ({
  headers: ["webhook-id", "msg_1", "webhook-timestamp", "0000000000", "webhook-signature", signature],
  body: "b",
});

test.each([
  ["both, and only the secret's is valid", [WHSEC], `${v1a("other")} ${v1()}`],
  ["both, and only the public key's is valid", [WHPK], `${v1("other")} ${v1a()}`],
  ["both, under both keys, and only the second is valid", [WHSEC, WHPK], `${v1a("other")} ${v1()}`],
  ["both, under both keys, and only the first is valid", [WHSEC, WHPK], `${v1("other")} ${v1a()}`],
])("a header with the versions v1 and v1a is accepted with %s", (_what, secrets, signature) => {
  expect(refusal(standard, asStandard(signature), secrets)).toBeUndefined();
});

const foreign = `v1,${createHmac("sha256", "a stranger's").update(CONTENT).digest("base64")}`;
test.each([
  ["neither of which is valid", [WHSEC, WHPK], `${v1a("other")} ${v1("other")}`],
  ["if only the one without a configured key is valid", [WHSEC], `${v1a()} ${foreign}`],
  ["if only the one without a configured key is valid", [WHPK], `${v1a("other")} ${v1()}`],
  [
    "whose MAC is made with the public key",
    [WHPK],
    `${v1a("other")} ${macWith(WHPK)} ${macWith(WHPK.slice(5))}`,
  ],
])("a header with the versions v1 and v1a is refused, %s", (_what, secrets, signature) => {
  expect(refusal(standard, asStandard(signature), secrets)).toBe("mismatch");
});

function macWith(text: string): string {
  const keys = [Buffer.from(text), Buffer.from(text, "base64")];
  return keys.map((key) => `v1,${createHmac("sha256", key).update(CONTENT).digest("base64")}`).join(" ");
}

test("if one header may have several versions, the refusal explains the fault of the version that was sent", () => {
  const late = { ...asStandard(v1()), headers: ["webhook-id", "1", "webhook-timestamp", "9999999999"] };
  const headers = [...late.headers, "webhook-signature", v1()];
  expect(refusal(standard, { ...late, headers }, [WHSEC, WHPK])).toMatch(/^early/);
});

const gitlab = [PRESETS["gitlab"]?.endpoint.signature ?? []].flat();

test("a valid token does not replace a signature whose key is not configured", () => {
  const { headers = [], body } = asStandard(v1("other"));
  const asked = { headers: [...headers, "X-Gitlab-Token", "a token"], body: body ?? "" };
  expect(refusal(gitlab, asked, ["a token"])).toBe("mismatch");
  expect(refusal(gitlab, asked, ["a token", WHSEC])).toBe("mismatch");
  expect(refusal(gitlab, { headers: ["X-Gitlab-Token", "a token"] }, ["a token"])).toBeUndefined();
});

test("a scheme with its signature in the query is skipped if the request has another signature", () => {
  const schemes: Scheme[] = [
    { query: "sig", algorithm: "hmac-sha256" },
    { header: "X-S", algorithm: "hmac-sha256" },
  ];
  const signature = mac("b").digest("hex");
  expect(refusal(schemes, { headers: ["X-S", signature], body: "b" })).toBeUndefined();
  expect(refusal(schemes, { target: `/x?sig=${signature}`, body: "b" })).toBeUndefined();
  expect(refusal(schemes, { target: "/x?sig=00", headers: ["X-S", signature], body: "b" })).toMatch(
    /^malformed/,
  );
  expect(refusal(schemes, { body: "b" })).toBe("missing: query parameter sig or header x-s");
});

test("a token is compared as UTF-8 if it was decoded, and as raw bytes if it is in a header", () => {
  const token: Scheme = { algorithm: "equal" };
  const check = (scheme: Scheme, secret: string, asked: Asked) => {
    const req = requestOf(asked);
    const proof = createSignatureCheck([scheme], [new Secret(secret)], { clock: () => 0 })(req);
    return () => proof.check(new RequestValues(req, Buffer.from(asked.body ?? "")));
  };
  expect(check({ ...token, query: "t" }, "gehëim", { target: "/x?t=geh%C3%ABim" })).not.toThrow();
  expect(check({ ...token, field: "/t" }, "gehëim", { body: '{"t":"gehëim"}' })).not.toThrow();
  expect(check({ ...token, query: "t" }, "ABC", { target: "/x?t=%C5%81BC" })).toThrow("mismatch");
  const asBytes = Buffer.from("gehëim").toString("latin1");
  expect(check({ ...token, header: "X-T" }, "gehëim", { headers: ["X-T", asBytes] })).not.toThrow();
});

test("a header that occurs twice is refused, even if the scheme has another header name", () => {
  const request = requestOf({ headers: ["webhook-id", "a", "webhook-id", "b", "Idempotency-Key", "c"] });
  expect(new RequestValues(request).header(["webhook-id", "idempotency-key"])).toEqual({
    problem: "repeated",
    what: "header webhook-id",
  });
});
