import { z } from "zod";
import { handshake as keys } from "../webhook-auth/sender-description.ts";
import { parseTemplate, readsJson } from "../webhook-auth/template.ts";
import { between } from "./between-keys.ts";
import { HOP_BY_HOP } from "./fields.ts";
import { type Problem, problem } from "./problem.ts";

/* The key `handshakes` of an endpoint, with the rules between the keys of each handshake. */

type HandshakeFields = z.output<typeof keys>;

const handshake = keys.check(
  between(answerProblems, headerProblems, macProblems, bodyProblems, formProblems),
);

function answerProblems({ status, body, json }: HandshakeFields): Problem[] {
  const problems: Problem[] = [];
  if (body !== undefined && json !== undefined)
    problems.push(problem("body", "must not be set together with json: set one of the two"));
  if (status === 204 && body !== undefined)
    problems.push(problem("body", "must not be set with status 204, which has no body"));
  if (status === 204 && json !== undefined)
    problems.push(problem("json", "must not be set with status 204, which has no body"));
  return problems;
}

/**
 * Headers that a configured answer must not set: those of the connection, those that the gateway controls, and cookies.
 */
const OWN_HEADERS: readonly string[] = [
  ...HOP_BY_HOP,
  ...["content-length", "content-encoding", "date", "cache-control", "x-content-type-options", "set-cookie"],
];

function headerProblems({ headers }: HandshakeFields): Problem[] {
  const names = Object.keys(headers).map((name) => name.toLowerCase());
  return Object.keys(headers).flatMap((name, index) => {
    const lower = name.toLowerCase();
    const path = ["headers", name];
    if (OWN_HEADERS.includes(lower)) return [problem(path, "must not be set: the gateway sets it")];
    if (lower === "content-type") return [problem(path, "must not be set: use content_type")];
    return names.indexOf(lower) < index ? [problem(path, "is listed twice")] : [];
  });
}

function macProblems({ json = {}, mac }: HandshakeFields): Problem[] {
  const uses = Object.keys(json).filter((name) => json[name] === "{mac}");
  if (mac === undefined) return uses.map((name) => problem(["json", name], "needs mac, which defines {mac}"));
  return uses.length === 0 ? [problem("mac", "is not used: no value of json is {mac}")] : [];
}

function formProblems({ form, proof, method }: HandshakeFields): Problem[] {
  if (form === undefined) return [];
  const problems: Problem[] = [];
  if (proof !== "none") problems.push(problem("form", 'is allowed only with proof = "none"'));
  if (method !== "POST") problems.push(problem("form", 'is allowed only with method = "POST"'));
  if (Object.values(form).every((value) => value === "*"))
    problems.push(
      problem("form", "must have a field with a value: otherwise, every form would match this handshake"),
    );
  return problems;
}

/**
 * Reports a handshake that needs no credential but uses the body. The gateway answers such a handshake before it reads
 * the body.
 */
function bodyProblems({ proof, when, body, json = {}, headers, mac }: HandshakeFields): Problem[] {
  if (proof === "credential") return [];
  const texts: [path: string[], text: unknown][] = [
    ...Object.keys(when).map((text): [string[], unknown] => [["when", text], text]),
    [["body"], body],
    ...Object.entries(json).map(([name, text]): [string[], unknown] => [["json", name], text]),
    ...Object.entries(headers).map(([name, text]): [string[], unknown] => [["headers", name], text]),
    [["mac", "of"], mac?.of],
  ];
  const message = 'must not read the body, except with proof = "credential"';
  return texts.filter(([, text]) => readsBody(text)).map(([path]) => problem(path, message));
}

function readsBody(text: unknown): boolean {
  const parts = typeof text === "string" && text !== "{mac}" ? parseTemplate(text) : [];
  return typeof parts !== "string" && parts.some(readsJson);
}

export const handshakes = z.array(handshake).default([]);
