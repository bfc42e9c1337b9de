import { expect, test } from "vitest";
import { endpointProblems, onlyProblem } from "./files.ts";

const signed = (scheme: string) =>
  `job_id = 1\nauth = "signature"\nsecret = "0123456789abcdef"\nsignature = ${scheme}`;
const hmac = (keys: string) => `{ header = "X-S", algorithm = "hmac-sha256", ${keys} }`;
const equal = (keys: string) => `{ header = "X-S", algorithm = "equal", ${keys} }`;

test.each([
  [
    hmac('signed = "{body:/a}.{body:/t}", timestamp = { field = "/b", unit = "s" }'),
    "signature.timestamp: is not covered by the signature",
  ],
  [
    hmac('signed = "{form}", timestamp = { field = "/t", unit = "s" }'),
    "signature.timestamp: is not covered by the signature",
  ],
  [
    hmac('signed = "{timestamp}{body}", timestamp = { field = "/t", unit = "s" }'),
    "signature.signed: must not hold {timestamp}, since the body has the time: write {body:/t}",
  ],
  [
    hmac('signed = "{timestamp}{body}", timestamp = { header = "X-T", unit = "s", past_secs = 300 }'),
    "signature.timestamp.future_secs: is missing: past_secs limits one side only",
  ],
  [
    hmac('signed = "{timestamp}{body}", timestamp = { header = "X-T", unit = "s", future_secs = 300 }'),
    "signature.timestamp.past_secs: is missing: future_secs limits one side only",
  ],
  [
    '{ header = "X-S", algorithm = "ed25519" }',
    'signature.secret_format: is missing: it must be "ed25519-hex" or "ed25519-whpk" for ed25519',
  ],
  [
    '{ header = "X-S", algorithm = "ecdsa-p256", secret_format = "hex" }',
    'signature.secret_format: must be "spki" for ecdsa-p256',
  ],
  [
    hmac('secret_format = "ed25519-hex"'),
    'signature.secret_format: must be "text", "hex", "base64", "whsec", "base64-or-whsec" or "text-or-whsec" for hmac-sha256',
  ],
  [equal('secret_format = "spki"'), 'signature.secret_format: must be "text", "hex", '],
  [hmac('prefix = "v1=", list = { separator = ",", key = "v1" }'), "signature.prefix: is not looked for in"],
  [hmac("prefix_optional = true"), "signature.prefix_optional: is not used: there is no prefix"],
  [hmac("any_header = true"), "signature.any_header: is not used: there is one header"],
  [hmac("url_port_optional = true"), "signature.url_port_optional: is not used: signed holds no {url}"],
  [
    hmac('signed = "{header:X-Id}{body}"'),
    "signature.signed: does not tell where {header} ends and the next part begins: put text between them",
  ],
  [hmac('signed = "{body}{header:X-Id}"'), "signature.signed: does not tell where {header} ends"],
  [hmac('signed = "{body:/a}{body:/b}"'), "signature.signed: does not tell where {field} ends"],
  [hmac('signed = "{body}{body}"'), "signature.signed: holds the body twice"],
  [hmac('signed = "{form}.{form}"'), "signature.signed: holds the body twice"],
  [
    hmac('body_sha256_query = "sha"'),
    "signature.body_sha256_query: is not covered by the signature: signed holds no {url}",
  ],
  [
    hmac('signed = "{url}", body_sha256_query = "sha"'),
    "signature.signed: holds nothing of the body, which then anybody could replace",
  ],
  [
    hmac('signed = "{url}.{form}", form_begins_with = "AccountSid"'),
    "signature.form_begins_with: is not used: in signed, {form} does not follow {url}",
  ],
  [
    hmac('signed = "{url}{form}", form_begins_with = "ana"'),
    "signature.form_begins_with: ends as it begins, so it does not tell where the form begins",
  ],
  [equal('encoding = "hex"'), 'signature.encoding: is not used: "equal" compares the secret itself'],
  [equal('signed = "{body}"'), 'signature.signed: is not used: "equal" compares the secret itself'],
  [
    equal('timestamp = { header = "X-T", unit = "s" }'),
    'signature.timestamp: is not used: "equal" compares the secret itself',
  ],
  [
    '[{ header = "X-S", algorithm = "hmac-sha256" }, { field = "/s", algorithm = "hmac-sha256" }]',
    "signature[1].field: is read after the body, when one of several schemes has long been chosen",
  ],
])("the signature %j is refused, with the key and what is wrong", (scheme, problem) => {
  expect(endpointProblems(signed(scheme))).toEqual(onlyProblem(problem));
});
