import { z } from "zod";
import { isPointer, type Part, parseTemplate } from "../senders/template.ts";
import { mustBe } from "./problem.ts";

/* What the keys that describe a sender are written in: templates, and pointers into a JSON body. */

export const pointer = z.string().refine(isPointer, "must be a JSON Pointer (RFC 6901), such as /data/id");

/** What zod is to say of a union whose shapes fit none of a key's values. */
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

/** What a request has of itself, before anything is known of its signature. */
export const REQUEST_PARTS = ["header", "query", "field"] as const;
export const requestTemplate = template(REQUEST_PARTS);

/** The text of a delivery id or an event type. */
export const requestText = requestTemplate.refine((text) => text.includes("{"), "must contain a placeholder");
