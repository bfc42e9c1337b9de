import { expect, test } from "vitest";
import { endpointProblems, onlyProblem } from "./files.ts";

const endpoint = (keys: string, signature = '{ header = "X-S", algorithm = "hmac-sha256" }') =>
  `job_id = 1\nauth = "signature"\nsecret = "0123456789abcdef"\nsignature = ${signature}\nhandshakes = [{ ${keys} }]`;
const GET = 'method = "GET", proof = "none"';
const POST = 'when = { "{body:/type}" = "ping" }, proof = "credential"';
const MAC = 'mac = { of = "{query:c}", encoding = "hex" }';

test.each([
  [`${POST}, json = { a = "{mac}" }`, "json.a: needs mac, which defines {mac}"],
  [`${POST}, mac = { of = "{body:/a}", encoding = "hex" }`, "mac: is not used: no value of json is {mac}"],
  [`${GET}, body = "a", json = { a = 1 }`, "body: must not be set together with json: set one of the two"],
  [`${GET}, body = "a", status = 204`, "body: must not be set with status 204, which has no body"],
  [`${GET}, json = { a = 1 }, status = 204`, "json: must not be set with status 204, which has no body"],
  ...["Content-Length", "transfer-encoding", "Connection", "Set-Cookie", "Date", "Cache-Control"].map(
    (name) => [
      `${GET}, headers = { ${name} = "a" }`,
      `headers.${name}: must not be set: the gateway sets it`,
    ],
  ),
  [`${GET}, form = { a = "1" }`, 'form: is allowed only with method = "POST"'],
  [`${POST}, form = { a = "1" }`, 'form: is allowed only with proof = "none"'],
  [
    'when = { "{query:a}" = "1" }, proof = "none", form = { a = "*" }',
    "form: must have a field with a value: otherwise, every form would match this handshake",
  ],
  [`${GET}, headers = { content-type = "a" }`, "headers.content-type: must not be set: use content_type"],
  [`${GET}, headers = { X-A = "a", x-a = "b" }`, "headers.x-a: is listed twice"],
  ...[
    ['when = { "{body:/a}" = "*" }', "when.{body:/a}"],
    ['body = "{body:/a}"', "body"],
    ['json = { a = "x{body:/a}" }', "json.a"],
    ['headers = { X-A = "{body:/a}" }', "headers.X-A"],
    [`json = { a = "{mac}" }, ${MAC.replace("query:c", "body:/c")}`, "mac.of"],
  ].map(([keys, key]) => [
    `${GET}, ${keys}`,
    `${key}: must not read the body, except with proof = "credential"`,
  ]),
] as [string, string][])("the handshake %j is refused, with the key and the problem", (keys, problem) => {
  expect(endpointProblems(endpoint(keys))).toEqual(onlyProblem(`handshakes[0].${problem}`));
});

test.each(['proof = "none"', 'proof = "credential"', 'proof = { secret_header = "X-Hook-Secret" }'])(
  "a handshake that every delivery would match is refused, with %s",
  (proof) => {
    expect(endpointProblems(endpoint(proof))).toEqual(
      onlyProblem("handshakes[0].when: is missing: without it, every delivery would match this handshake"),
    );
  },
);

test.each(['auth = "none"', 'auth = "token"\ntoken_field = "/t"\nsecret = "0123456789abcdef"'])(
  "a handshake with a form is refused if deliveries have no credential in their head: %s",
  (auth) => {
    const form = 'when = { "{query:a}" = "1" }, proof = "none", form = { a = "1" }';
    expect(endpointProblems(`job_id = 1\n${auth}\nhandshakes = [{ ${form} }]`)).toEqual(
      onlyProblem("handshakes[0].form: is allowed only if deliveries have their credential in a header"),
    );
  },
);

test("a handshake with another method than deliveries needs no condition", () => {
  expect(endpointProblems(endpoint(GET))).toEqual([]);
});

const oracle = `${GET}, json = { a = "{mac}" }, ${MAC}`;

test.each([
  '{ header = "X-S", algorithm = "hmac-sha256", signed = "{body:/id}" }',
  '{ header = "X-S", algorithm = "hmac-sha256", signed = "{form}" }',
  '[{ header = "X-S", algorithm = "hmac-sha256" }, { header = "X-T", algorithm = "hmac-sha256", signed = "{body:/id}" }]',
])("a handshake without a credential cannot have a MAC if the signature %s", (signature) => {
  expect(endpointProblems(endpoint(oracle, signature))).toEqual(
    onlyProblem(
      "handshakes[0].mac: is computed for unauthenticated requests, so it could sign a delivery: signed must contain {body}",
    ),
  );
});

test("a handshake without a credential may have a MAC if every signature covers the body, and one with a credential always may", () => {
  const mine = `${POST}, json = { a = "{mac}" }, mac = { of = "{body:/c}", encoding = "hex" }`;
  const signature = '{ header = "X-S", algorithm = "hmac-sha256", signed = "{body:/id}" }';
  expect(endpointProblems(endpoint(oracle))).toEqual([]);
  expect(endpointProblems(endpoint(mine, signature))).toEqual([]);
});

test("a MAC needs an HMAC signature", () => {
  expect(endpointProblems(endpoint(oracle, '{ header = "X-S", algorithm = "equal" }'))).toEqual(
    onlyProblem("handshakes[0].mac: is allowed only if deliveries have an HMAC signature"),
  );
});
