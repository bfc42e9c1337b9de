import { z } from "zod";
import { mustBe } from "../platform/text/must-be.ts";
import { isHeaderName, isPointer, type Part, parseTemplate } from "./template.ts";

/*
 * Schemas of the values in sender descriptions: header texts, templates, and pointers into a JSON body.
 */

export const headerName = z.string().refine(isHeaderName, "must be a header name (RFC 9110)");
export const visibleAscii = z.string().regex(/^[!-~]+$/, "must be visible ASCII without spaces");
/** Header value: visible ASCII, with single spaces inside. */
export const headerText = z
  .string()
  .regex(/^[!-~]+(?: [!-~]+)*$/, "must be visible ASCII, because it becomes a header value");

export const pointer = z.string().refine(isPointer, "must be a JSON Pointer (RFC 6901), such as /data/id");

/** Returns options for a zod union: the message for a value that is not `what`. */
export const orElse = (what: string) => ({
  error: ({ input }: { input?: unknown }) => mustBe(what, input),
});

/** Creates the schema of a template with these placeholders. */
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

/**
 * Schema of a template that reads values of a request. It must not read values of the signature, such as {timestamp}.
 */
export const requestTemplate = template(["header", "query", "field", "cloudevent"]);

/** Template of a delivery id or an event type. */
export const requestText = requestTemplate.refine((text) => text.includes("{"), "must contain a placeholder");

/** Input of a schema, read-only. */
export type Input<Schema extends z.ZodType> = Frozen<z.input<Schema>>;

type Frozen<Value> = Value extends object ? { readonly [Key in keyof Value]: Frozen<Value[Key]> } : Value;
