import { z } from "zod";
import { headerName } from "./fields.ts";
import { type Env, secretValue } from "./secret-value.ts";

/** What every request says of itself (RFC 9110, sections 7 and 8). */
const OWN_HEADERS = ["connection", "content-length", "content-type", "host", "transfer-encoding"];

/** Headers for every request to somebody else, by lower-case name: credentials, as most of them want some. */
export function secretHeaders(env: Env) {
  const value = secretValue(env).refine(
    (secret) => /^[!-~]+(?: [!-~]+)*$/.test(secret.reveal()),
    "must be visible ASCII, since it becomes a header value",
  );
  return z
    .record(z.string(), value)
    .default({})
    .superRefine((headers, context) => {
      const names = Object.keys(headers).map((name) => name.toLowerCase());
      Object.keys(headers).forEach((name, index) => {
        const problem = headerNameProblem(name, names.indexOf(name.toLowerCase()) < index);
        if (problem !== undefined) context.addIssue({ code: "custom", path: [name], message: problem });
      });
    })
    .transform((headers) => lowerCased(headers));
}

function headerNameProblem(name: string, repeats: boolean): string | undefined {
  if (!headerName.safeParse(name).success) return "is not a header name (RFC 9110)";
  if (OWN_HEADERS.includes(name.toLowerCase())) return "is set by the gateway itself";
  return repeats ? "is there twice" : undefined;
}

function lowerCased<Value>(headers: Readonly<Record<string, Value>>): Readonly<Record<string, Value>> {
  return Object.fromEntries(Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value]));
}
