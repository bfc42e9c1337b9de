import { expect, test } from "vitest";
import { loadConfig } from "../../../shared/config/config-dir.ts";
import { readWebhooks } from "../../../shared/config/read-webhooks.ts";
import { dirWith, endpointProblems, onlyProblem } from "./files.ts";

const SECRET = 'secret = "0123456789abcdef"';
const bearer = `job_id = 1\nauth = "bearer"\n${SECRET}`;
const hmac = `job_id = 1\nauth = "hmac-sha256"\n${SECRET}`;

test.each([
  [`job_id = 1\nauth = "basic"\nusername = "a:b"\n${SECRET}`, "username: must not contain a colon"],
  [`${hmac}\nsignature_over = "decoded"`, 'signature_over: is not used: with encoded_bodies = "refuse"'],
  [
    `${bearer}\nidempotency_window_secs = 60`,
    "idempotency_window_secs: is not used: the endpoint has no delivery_id",
  ],
  [
    `${hmac}\npublic_url = "https://a.example/x"`,
    "public_url: is not used: this sender does not sign the URL",
  ],
  [
    `${bearer}\npublic_url = "https://a.example/x"`,
    "public_url: is not used: this sender does not sign the URL",
  ],
  [
    'job_id = 1\npreset = "twilio"\nsecret = "0123456789abcdef"\npublic_url = "https://a.example/x?"',
    "public_url: must not end with ?, which makes the start of the form ambiguous",
  ],
  [`${bearer}\nforward_headers = ["X-A", "X-B", "x-a"]`, "forward_headers[2]: is listed twice"],
  [`${bearer}\nevent_type = "{header:X A}"`, "event_type: has an unknown placeholder: {header:X A}"],
  [`${bearer}\nevent_type = "{header:X-A|}"`, "event_type: has an unknown placeholder: {header:X-A|}"],
  [`${bearer}\nevent_type = "{body:/a~2}"`, "event_type: has an unknown placeholder: {body:/a~2}"],
  [
    `${bearer}\nanswer = { status = 204, body = "ok" }`,
    "answer.body: must not be set with status 204, which has no body",
  ],
  [
    `job_id = 1\nauth = "token"\ntoken_field = "/token"\n${SECRET}\nkeep_rejected_bodies = true`,
    "keep_rejected_bodies: must be false: the body contains the credential",
  ],
  [`${bearer}\nwait_secs = 2`, 'wait_secs: is not used: only respond = "result" waits'],
])("the contradiction in %j is refused at its key", (lines, problem) => {
  expect(endpointProblems(lines)).toEqual(onlyProblem(problem));
});

test("refused bodies may be kept if the body contains only a signature", () => {
  const topic = "arn:aws:sns:us-east-1:123456789012:orders";
  const lines = `job_id = 1\npreset = "aws-sns"\ntopics = ["${topic}"]\nkeep_rejected_bodies = true`;
  expect(endpointProblems(lines)).toEqual([]);
});

const endpointOf = (lines: string) => {
  const files = { "webhooks.toml": `[[endpoints]]\npath = "/a"\njob_id = 1\n${SECRET}\n${lines}\n` };
  return loadConfig(readWebhooks, { dir: dirWith(files), env: {} }).webhooks?.endpoints[0];
};

test("an answer of 204 removes the preset's body and its type", () => {
  const { answer } = endpointOf('preset = "slack"\nanswer = { status = 204 }') ?? {};
  expect(answer).toEqual({ status: 204, limited: 429, refusals_limited: 429 });
  const twilio = endpointOf(
    'preset = "twilio"\npublic_url = "https://a.example/x"\nanswer = { status = 204 }',
  );
  expect(twilio?.answer).toEqual({ status: 204, limited: 429, refusals_limited: 429 });
});

test("refusing encoded bodies, or another credential, removes what the preset says about signing them", () => {
  expect(endpointOf('preset = "quicknode"\nencoded_bodies = "refuse"')).toMatchObject({
    signature_over: "received",
  });
  expect(endpointOf('preset = "quicknode"\nauth = "bearer"')).toMatchObject({ auth: "bearer" });
});
