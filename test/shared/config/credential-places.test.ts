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
  [`${bearer}\nevent_type = "{header:AUTHORIZATION}"`, "event_type: must not read the credential's header"],
  [`${bearer}\nforward_headers = ["Cookie"]`, "forward_headers[0]: must not be the credential's header"],
  [`${apiKey}\nevent_type = "{header:X-Acme-Key}"`, "event_type: must not read the credential's header"],
  [
    `${apiKey}\nevent_type = "a.{header:X-B|x-acme-key}"`,
    "event_type: must not read the credential's header",
  ],
  [`${apiKey}\ndelivery_id = "{header:X-Acme-Key}"`, "delivery_id: must not read the credential's header"],
  [
    `${apiKey}\nidempotency_header = "X-ACME-KEY"`,
    "idempotency_header: must not read the credential's header",
  ],
  [`${bearer}\nidempotency_header = "X-A|Authorization"`, "idempotency_header: must be a single header"],
  [
    `auth = "bearer"\n${SECRET}\nroute_by = { header = "Authorization", ${jobs} }`,
    "route_by.header: must not read the credential's header",
  ],
  [
    `auth = "token"\ntoken_field = "/token"\n${SECRET}\nroute_by = { field = "/token", ${jobs} }`,
    "route_by.field: must not read the credential's field",
  ],
  [`${query}\nevent_type = "{query:token}"`, "event_type: must not read the credential's query parameter"],
  [`${query}\ndelivery_id = "{query:token}"`, "delivery_id: must not read the credential's query parameter"],
  [`${query}\nforward_query = true`, "forward_query: must be false: the query contains the credential"],
  [`${field}\ndelivery_id = "{body:/0/token}"`, "delivery_id: must not read the credential's field"],
  [`${field}\nevent_type = "{body:/*/token}"`, "event_type: must not read the credential's field"],
  [
    `${signed('{ query = "token", algorithm = "equal" }')}\nforward_query = true`,
    "forward_query: must be false: the query contains the credential",
  ],
  [
    `${signed('{ field = "/mac", algorithm = "equal" }')}\nevent_type = "{body:/mac}"`,
    "event_type: must not read the credential's field",
  ],
  [
    `${signed('[{ header = ["X-A", "X-B"], algorithm = "hmac-sha256" }, { header = "X-C", algorithm = "equal" }]')}\nforward_headers = ["x-c"]`,
    "forward_headers[0]: must not be the credential's header",
  ],
  [
    'job_id = 1\npreset = "asana"\nforward_headers = ["X-Hook-Secret"]',
    "forward_headers[0]: must not be the credential's header",
  ],
  [`${meta}\nforward_query = true`, "forward_query: must be false: the query contains the credential"],
  [
    `${meta}\ndelivery_id = "{query:hub.verify_token}"`,
    "delivery_id: must not read the credential's query parameter",
  ],
])("a template that would pass a credential on is refused: %j", (lines, problem) => {
  expect(endpointProblems(lines)).toEqual(onlyProblem(problem));
});

test.each([
  `${query}\nevent_type = "{query:event}"`,
  `${field}\nevent_type = "{body:/0/type}"`,
  `${field}\nevent_type = "{body:/token}"`,
  `${apiKey}\nforward_headers = ["X-API-Key"]`,
])("a template that reads values beside a credential is accepted: %j", (lines) => {
  expect(endpointProblems(lines)).toEqual([]);
});
