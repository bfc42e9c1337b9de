import { z } from "zod";
import { parseTemplate } from "../senders/template.ts";
import { headerName, headerText } from "./fields.ts";
import { mustBe, requestTemplate } from "./template-fields.ts";

/* The key `handshakes` of an endpoint: the requests that set it up at the sender, and their answers. */

const jsonValue = z.union(
  [z.literal("{mac}"), requestTemplate, z.number()],
  mustBe('"{mac}", text with placeholders or a number'),
);

const fields = z.strictObject({
  method: z.enum(["GET", "HEAD", "OPTIONS", "POST"]).default("POST"),
  when: z.record(requestTemplate, z.string()).default({}),
  proof: z.union(
    [
      z.enum(["none", "credential"]),
      z.strictObject({ verify_token: z.string().min(1) }),
      z.strictObject({ secret_header: headerName }),
    ],
    mustBe('"none", "credential", { verify_token = … } or { secret_header = … }'),
  ),
  status: z.literal([200, 204]).default(200),
  content_type: headerText.optional(),
  body: requestTemplate.optional(),
  json: z.record(z.string(), jsonValue).optional(),
  headers: z.record(headerName, requestTemplate).default({}),
  mac: z
    .strictObject({
      of: requestTemplate,
      encoding: z.enum(["hex", "base64"]),
      prefix: z.string().optional(),
    })
    .optional(),
});

type HandshakeFields = z.output<typeof fields>;

const handshake = fields.superRefine((parsed, context) => {
  for (const [path, message] of handshakeProblems(parsed)) {
    context.addIssue({ code: "custom", path: [...path], message });
  }
});

type HandshakeProblem = [path: readonly [keyof HandshakeFields, ...string[]], message: string];

/** What no single key can know. */
function handshakeProblems(parsed: HandshakeFields): HandshakeProblem[] {
  return [
    ...answerProblems(parsed),
    ...headerProblems(parsed),
    ...macProblems(parsed),
    ...bodyProblems(parsed),
  ];
}

function answerProblems({ status, body, json }: HandshakeFields): HandshakeProblem[] {
  const problems: HandshakeProblem[] = [];
  if (body !== undefined && json !== undefined)
    problems.push([["body"], "is one answer and json another: name one of them"]);
  if (status === 204 && body !== undefined) problems.push([["body"], "is not sent with status 204"]);
  if (status === 204 && json !== undefined) problems.push([["json"], "is not sent with status 204"]);
  return problems;
}

/** Headers of every answer, of the connection, and those that would make a browser keep or follow something. */
const OWN_HEADERS: readonly string[] = [
  ...["connection", "keep-alive", "proxy-connection", "te", "trailer", "transfer-encoding", "upgrade"],
  ...["content-length", "content-encoding", "date", "cache-control", "x-content-type-options", "set-cookie"],
];

function headerProblems({ headers }: HandshakeFields): HandshakeProblem[] {
  const names = Object.keys(headers).map((name) => name.toLowerCase());
  return Object.keys(headers).flatMap((name, index): HandshakeProblem[] => {
    const lower = name.toLowerCase();
    if (OWN_HEADERS.includes(lower)) return [[["headers", name], "is set by the gateway itself"]];
    if (lower === "content-type") return [[["headers", name], "is what content_type sets"]];
    return names.indexOf(lower) < index ? [[["headers", name], "is there twice"]] : [];
  });
}

function macProblems({ json = {}, mac }: HandshakeFields): HandshakeProblem[] {
  const uses = Object.keys(json).filter((name) => json[name] === "{mac}");
  if (mac === undefined)
    return uses.map((name) => [["json", name], "needs mac, which says what it is made of"]);
  return uses.length === 0 ? [[["mac"], "is not used: no value of json is {mac}"]] : [];
}

/** What no credential proves is answered before its body is read. */
function bodyProblems({ proof, when, body, json = {}, headers, mac }: HandshakeFields): HandshakeProblem[] {
  if (proof === "credential") return [];
  const texts: [HandshakeProblem[0], unknown][] = [
    ...Object.keys(when).map((text): [HandshakeProblem[0], unknown] => [["when", text], text]),
    [["body"], body],
    ...Object.entries(json).map(([name, text]): [HandshakeProblem[0], unknown] => [["json", name], text]),
    ...Object.entries(headers).map(([name, text]): [HandshakeProblem[0], unknown] => [
      ["headers", name],
      text,
    ]),
    [["mac", "of"], mac?.of],
  ];
  const message = 'can read the body only of a handshake with proof = "credential"';
  return texts.filter(([, text]) => readsBody(text)).map(([path]) => [path, message]);
}

function readsBody(text: unknown): boolean {
  const parts = typeof text === "string" && text !== "{mac}" ? parseTemplate(text) : [];
  return typeof parts !== "string" && parts.some(({ kind }) => kind === "field");
}

export const handshakes = z.array(handshake).default([]);
