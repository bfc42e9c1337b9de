import { expect, test } from "vitest";
import { endpointProblems, onlyProblem } from "./files.ts";

const signed = (scheme: string) =>
  `job_id = 1\nauth = "signature"\nsecret = "0123456789abcdef"\nsignature = ${scheme}`;
const hmac = (keys: string) => `{ header = "X-S", algorithm = "hmac-sha256", ${keys} }`;
const equal = (keys: string) => `{ header = "X-S", algorithm = "equal", ${keys} }`;

test.each([
  [
    hmac('signed = "{body:/a}.{body:/t}", timestamp = { field = "/b", unit = "s" }'),
    "signature.timestamp: must be covered by the signature",
  ],
  [
    hmac('signed = "{form}", timestamp = { field = "/t", unit = "s" }'),
    "signature.timestamp: must be covered by the signature",
  ],
  [
    hmac('signed = "{timestamp}{body}", timestamp = { field = "/t", unit = "s" }'),
    "signature.signed: must not contain {timestamp}, because the time is in the body: use {body:/t}",
  ],
  [
    hmac('signed = "{timestamp}{body}", timestamp = { header = "X-T", unit = "s", past_secs = 300 }'),
    "signature.timestamp.future_secs: is missing: set both past_secs and future_secs",
  ],
  [
    hmac('signed = "{timestamp}{body}", timestamp = { header = "X-T", unit = "s", future_secs = 300 }'),
    "signature.timestamp.past_secs: is missing: set both past_secs and future_secs",
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
  [
    hmac('prefix = "v1=", list = { separator = ",", key = "v1" }'),
    "signature.prefix: must not be set together with list",
  ],
  [hmac("prefix_optional = true"), "signature.prefix_optional: is not used: prefix is not set"],
  [hmac("any_header = true"), "signature.any_header: is not used: header has at most one name"],
  [hmac("twilio = true"), 'signature.twilio: is not used: signed is not "{url}{form}"'],
  [
    hmac('signed = "{header:X-Id}{body}"'),
    "signature.signed: must separate {header} from the parts beside it with text",
  ],
  [hmac('signed = "{body}{header:X-Id}"'), "signature.signed: must separate {header} from"],
  [hmac('signed = "{body:/a}{body:/b}"'), "signature.signed: must separate {field} from"],
  [hmac('signed = "{body}{body}"'), "signature.signed: must not contain the body twice"],
  [hmac('signed = "{form}.{form}"'), "signature.signed: must not contain the body twice"],
  [
    hmac('signed = "{url}"'),
    "signature.signed: must contain the body or a field of it: otherwise, the body could be replaced",
  ],
  [hmac('signed = "{url}.{form}", twilio = true'), "signature.twilio: is not used: signed is not"],
  [equal('encoding = "hex"'), 'signature.encoding: is not used: "equal" compares the secret itself'],
  [equal('signed = "{body}"'), 'signature.signed: is not used: "equal" compares the secret itself'],
  [
    equal('timestamp = { header = "X-T", unit = "s" }'),
    'signature.timestamp: is not used: "equal" compares the secret itself',
  ],
  [
    '[{ header = "X-S", algorithm = "hmac-sha256" }, { field = "/s", algorithm = "hmac-sha256" }]',
    "signature[1].field: is allowed only with one scheme: one of several is chosen before the body is read",
  ],
])("the signature %j is refused, with the key and the problem", (scheme, problem) => {
  expect(endpointProblems(signed(scheme))).toEqual(onlyProblem(problem));
});
