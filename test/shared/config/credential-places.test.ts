import { expect, test } from "vitest";
import { endpointProblems, onlyProblem } from "./files.ts";

const SECRET = 'secret = "0123456789abcdef"';
const bearer = `job_id = 1\nauth = "bearer"\n${SECRET}`;
const apiKey = `job_id = 1\nauth = "api-key"\napi_key_header = "X-Acme-Key"\n${SECRET}`;
const query = `job_id = 1\nauth = "token"\ntoken_query = "token"\n${SECRET}`;
const field = `job_id = 1\nauth = "token"\ntoken_field = "/0/token"\n${SECRET}`;
const signed = (scheme: string) => `job_id = 1\nauth = "signature"\n${SECRET}\nsignature = ${scheme}`;
const meta = `job_id = 1\npreset = "meta"\nverify_token = "0123456789abcdef"\n${SECRET}`;
const jobs = "jobs = { a = 1 }";

test.each([
  [`${bearer}\nevent_type = "{header:AUTHORIZATION}"`, "event_type: holds the header of the credential"],
  [`${bearer}\nforward_headers = ["Cookie"]`, "forward_headers[0]: is the header of the credential"],
  [`${apiKey}\nevent_type = "{header:X-Acme-Key}"`, "event_type: holds the header of the credential"],
  [`${apiKey}\nevent_type = "a.{header:X-B|x-acme-key}"`, "event_type: holds the header of the credential"],
  [`${apiKey}\ndelivery_id = "{header:X-Acme-Key}"`, "delivery_id: holds the header of the credential"],
  [`${apiKey}\nidempotency_header = "X-ACME-KEY"`, "idempotency_header: is the header of the credential"],
  [`${bearer}\nidempotency_header = "X-A|Authorization"`, "idempotency_header: must be one header"],
  [
    `auth = "bearer"\n${SECRET}\nroute_by = { header = "Authorization", ${jobs} }`,
    "route_by.header: is the header of the credential",
  ],
  [
    `auth = "token"\ntoken_field = "/token"\n${SECRET}\nroute_by = { field = "/token", ${jobs} }`,
    "route_by.field: is the field of the credential",
  ],
  [`${query}\nevent_type = "{query:token}"`, "event_type: holds the query parameter of the credential"],
  [`${query}\ndelivery_id = "{query:token}"`, "delivery_id: holds the query parameter of the credential"],
  [`${query}\nforward_query = true`, "forward_query: would hand the credential on"],
  [`${field}\ndelivery_id = "{body:/0/token}"`, "delivery_id: holds the field of the credential"],
  [`${field}\nevent_type = "{body:/*/token}"`, "event_type: holds the field of the credential"],
  [
    `${signed('{ query = "token", algorithm = "equal" }')}\nforward_query = true`,
    "forward_query: would hand the credential on",
  ],
  [
    `${signed('{ field = "/mac", algorithm = "equal" }')}\nevent_type = "{body:/mac}"`,
    "event_type: holds the field of the credential",
  ],
  [
    `${signed('[{ header = ["X-A", "X-B"], algorithm = "hmac-sha256" }, { header = "X-C", algorithm = "equal" }]')}\nforward_headers = ["x-c"]`,
    "forward_headers[0]: is the header of the credential",
  ],
  [
    'job_id = 1\npreset = "asana"\nforward_headers = ["X-Hook-Secret"]',
    "forward_headers[0]: is the header of the credential",
  ],
  [`${meta}\nforward_query = true`, "forward_query: would hand the credential on"],
  [`${meta}\ndelivery_id = "{query:hub.verify_token}"`, "delivery_id: holds the query parameter of"],
])("a credential cannot be named where it would leave the gateway: %j", (lines, problem) => {
  expect(endpointProblems(lines)).toEqual(onlyProblem(problem));
});

test.each([
  `${query}\nevent_type = "{query:event}"`,
  `${field}\nevent_type = "{body:/0/type}"`,
  `${field}\nevent_type = "{body:/token}"`,
  `${apiKey}\nforward_headers = ["X-API-Key"]`,
])("what is beside a credential can be named: %j", (lines) => {
  expect(endpointProblems(lines)).toEqual([]);
});
