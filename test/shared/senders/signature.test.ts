import { createHmac } from "node:crypto";
import type { IncomingMessage } from "node:http";
import { expect, test } from "vitest";
import { Secret } from "../../../shared/crypto/secret.ts";
import { messageOf } from "../../../shared/errors/app-error.ts";
import type { Scheme } from "../../../shared/senders/description.ts";
import { PRESETS } from "../../../shared/senders/presets.ts";
import { createSignatureCheck } from "../../../shared/senders/signature.ts";
import { RequestValues } from "../../../shared/senders/template.ts";

const SECRET = "a secret of one's own";
const URL = "https://hooks.example.com/x";

type Asked = { headers?: string[]; target?: string; body?: string };

const requestOf = ({ headers = [], target = "/x" }: Asked) =>
  ({ method: "POST", url: target, rawHeaders: headers }) as unknown as IncomingMessage;

/** Why a request is refused; undefined if its signature holds. */
function refusal(schemes: readonly Scheme[], asked: Asked): string | undefined {
  const options = { publicUrl: URL, clock: () => 0 };
  try {
    const check = createSignatureCheck(schemes, [new Secret(SECRET)], options);
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

test("a form of up to 1,000 fields is sorted to be checked, and a longer one refused before it is parsed", () => {
  expect(refusal(twilio, asTwilio(1000))).toBeUndefined();
  expect(refusal(twilio, asTwilio(1001))).toBe("malformed: the form has too many fields");
});

const listed: Scheme = { header: "X-S", list: { separator: ",", key: "v1" }, algorithm: "hmac-sha256" };

test("of a list, up to 8 signatures are tried, and a longer one is refused", () => {
  const good = `v1=${mac("b").digest("hex")}`;
  const bad = (times: number) => Array(times).fill(`v1=${"0".repeat(64)}`);
  const withItems = (items: string[]) => ({ headers: ["X-S", items.join(",")], body: "b" });
  expect(refusal([listed], withItems([...bad(7), good]))).toBeUndefined();
  expect(refusal([listed], withItems([...bad(8), good]))).toMatch(/^malformed/);
});

test("a way to sign that is in the query is passed over by a request that has another", () => {
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

test("a token is compared as UTF-8 where it was decoded, and as the bytes of a header", () => {
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

test("a header that came twice is not passed over for another of its names", () => {
  const request = requestOf({ headers: ["webhook-id", "a", "webhook-id", "b", "Idempotency-Key", "c"] });
  expect(new RequestValues(request).header(["webhook-id", "idempotency-key"])).toEqual({
    problem: "repeated",
    what: "header webhook-id",
  });
});
