import { z } from "zod";
import { mustBe } from "../platform/text/must-be.ts";
import { isHeaderName, isPointer, type Part, parseTemplate } from "./template.ts";

/* The forms of the keys that describe a sender: text of headers, templates, and pointers into a JSON body. */

export const headerName = z.string().refine(isHeaderName, "must be a header name (RFC 9110)");
export const visibleAscii = z.string().regex(/^[!-~]+$/, "must be visible ASCII without spaces");
/** A header value: visible ASCII, with single spaces inside. */
export const headerText = z
  .string()
  .regex(/^[!-~]+(?: [!-~]+)*$/, "must be visible ASCII, because it becomes a header value");

export const pointer = z.string().refine(isPointer, "must be a JSON Pointer (RFC 6901), such as /data/id");

/** The message of a union whose shapes fit none of a key's values. */
export const orElse = (what: string) => ({
  error: ({ input }: { input?: unknown }) => mustBe(what, input),
});

/** A template of these placeholders. */
export function template(kinds: readonly Part["kind"][]) {
  return z.string().superRefine((text, context) => {
    const parts = parseTemplate(text);
    if (typeof parts === "string") return context.addIssue(parts);
    for (const { kind } of parts) {
      if (kind !== "literal" && !kinds.includes(kind))
        context.addIssue(`must not contain {${kind === "field" ? "body:…" : kind}} here`);
    }
  });
}

/** The parts of a request that a template can read before anything is known of its signature. */
export const REQUEST_PARTS = ["header", "query", "field"] as const;
export const requestTemplate = template(REQUEST_PARTS);

/** The text of a delivery id or an event type. */
export const requestText = requestTemplate.refine((text) => text.includes("{"), "must contain a placeholder");

/** The input of a schema, which nothing changes. */
export type Input<Schema extends z.ZodType> = Frozen<z.input<Schema>>;

type Frozen<Value> = Value extends object ? { readonly [Key in keyof Value]: Frozen<Value[Key]> } : Value;
