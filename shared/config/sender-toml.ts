import { z } from "zod";
import { ALGORITHMS, ENCODINGS, type Scheme, SECRET_FORMATS, TIME_UNITS } from "../senders/description.ts";
import { type Part, parseTemplate } from "../senders/template.ts";
import { headerName, headerText } from "./fields.ts";

/*
 * The keys of an endpoint that describe its sender (shared/senders/description.ts), checked. They come out as they went in,
 * for the code that reads presets too.
 */

export const pointer = z
  .string()
  .regex(/^(?:\/(?:[^~/]|~[01])*)+$/, "must be a JSON Pointer such as /data/id (RFC 6901)");
/** Says of a key what it must be, or that it is missing. */
const mustBe = (what: string) => ({
  error: ({ input }: { input?: unknown }) => `${input === undefined ? "is missing: it " : ""}must be ${what}`,
});

const anyOfOne = "name exactly one of";

/** A template of these placeholders. */
function template(kinds: readonly Part["kind"][]) {
  return z.string().superRefine((text, context) => {
    const parts = parseTemplate(text);
    if (typeof parts === "string") return context.addIssue(parts);
    for (const { kind } of parts) {
      if (kind !== "literal" && !kinds.includes(kind))
        context.addIssue(`must not hold {${kind === "field" ? "body:…" : kind}} here`);
    }
  });
}

const REQUEST_PARTS = ["header", "query", "field"] as const;
const signedText = template([
  ...REQUEST_PARTS,
  "body",
  "pair",
  "named-headers",
  "timestamp",
  "method",
  "url",
  "form",
  "secret",
]);

/** The text of a delivery id or an event type. */
export const requestText = template(REQUEST_PARTS).refine(
  (text) => text.includes("{"),
  "holds no placeholder",
);

function countOf(values: readonly unknown[]): number {
  return values.filter((value) => value !== undefined).length;
}

const timestamp = z
  .strictObject({
    header: headerName.optional(),
    pair: z.string().min(1).optional(),
    field: pointer.optional(),
    unit: z.enum(TIME_UNITS),
    past_secs: z.number().min(0).optional(),
    future_secs: z.number().min(0).optional(),
  })
  .refine(
    ({ header, pair, field }) => countOf([header, pair, field]) === 1,
    `${anyOfOne} header, pair and field`,
  );

const scheme = z
  .strictObject({
    header: z
      .union([headerName, z.array(headerName).min(1)], mustBe("a header name or a list of them"))
      .optional(),
    query: z.string().min(1).optional(),
    field: pointer.optional(),
    any_header: z.boolean().optional(),
    prefix: z.string().optional(),
    prefix_optional: z.boolean().optional(),
    list: z
      .strictObject({
        separator: z.string().min(1),
        assign: z.string().min(1).optional(),
        key: z.string().min(1),
      })
      .optional(),
    encoding: z.enum(ENCODINGS).optional(),
    algorithm: z.enum(ALGORITHMS),
    secret_format: z.enum(SECRET_FORMATS).optional(),
    signed: signedText.optional(),
    body_sha256_query: z.string().min(1).optional(),
    url_port_optional: z.boolean().optional(),
    timestamp: timestamp.optional(),
    require: z.record(headerName, z.string()).optional(),
  })
  .refine(
    ({ header, query, field }) => countOf([header, query, field]) === 1,
    `${anyOfOne} header, query and field`,
  )
  .superRefine((parsed, context) => {
    for (const [key, message] of schemeProblems(parsed as Scheme)) {
      context.addIssue({ code: "custom", path: [key], message });
    }
  });

/** What no single key can know: whether the signature covers what it has to. */
function schemeProblems(scheme: Scheme): [key: keyof Scheme, message: string][] {
  const parts = parseTemplate(scheme.signed ?? "{body}");
  if (typeof parts === "string" || scheme.algorithm === "equal") return [];
  const has = (...kinds: Part["kind"][]) => parts.some(({ kind }) => kinds.includes(kind));
  return [...messageProblems(scheme, has), ...timeProblems(scheme, has)];
}

type Has = (...kinds: Part["kind"][]) => boolean;

function messageProblems(scheme: Scheme, has: Has): [keyof Scheme, string][] {
  const { algorithm, list, body_sha256_query } = scheme;
  const problems: [keyof Scheme, string][] = [];
  if (!has("body", "form", "field") && body_sha256_query === undefined)
    problems.push(["signed", "holds nothing of the body, which then anybody could replace"]);
  const isPlainHash = algorithm === "sha256" || algorithm === "keccak-256";
  if (isPlainHash && !has("secret")) problems.push(["signed", "must hold {secret}: the hash has no key"]);
  if (!isPlainHash && has("secret")) problems.push(["signed", "must not hold {secret}"]);
  const readsPairs = has("pair", "named-headers") || scheme.timestamp?.pair !== undefined;
  if (readsPairs && list === undefined) problems.push(["list", "is needed, since a pair of it is used"]);
  return problems;
}

function timeProblems({ timestamp }: Scheme, has: Has): [keyof Scheme, string][] {
  if (timestamp === undefined)
    return has("timestamp") ? [["timestamp", "is needed, since {timestamp} is signed"]] : [];
  const isSigned = timestamp.field === undefined ? has("timestamp") : has("body", "field");
  if (isSigned) return [];
  return [["timestamp", "is not covered by the signature: whoever replays a request could change it"]];
}

export const signature = z
  .union([scheme, z.array(scheme).min(1).max(8)], mustBe("a table or a list of tables"))
  .transform((one) => [one].flat() as readonly Scheme[]);

export const answer = z.strictObject({
  status: z.literal([200, 201, 202, 204]).default(202),
  content_type: headerText.optional(),
  body: z.string().max(4096).optional(),
  limited: z.literal([429, 503]).default(429),
  refusals_limited: z.literal([401, 429]).default(429),
});

const requestTemplate = template(REQUEST_PARTS);

const jsonValue = z.union(
  [z.literal("{mac}"), requestTemplate, z.number()],
  mustBe('"{mac}", text with placeholders or a number'),
);

const handshake = z
  .strictObject({
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
  })
  .refine(
    ({ proof, when }) => proof === "credential" || !Object.keys(when).some((key) => key.includes("{body:")),
    {
      path: ["when"],
      message: 'can read the body only of a handshake with proof = "credential"',
    },
  );

export const handshakes = z.array(handshake).default([]);
