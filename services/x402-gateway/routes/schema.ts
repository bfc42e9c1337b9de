import { AppError } from "../../../shared/platform/errors/app-error.ts";
import type { JsonSchema } from "../../../shared/platform/json-schema/json-schema.ts";
import type { Job } from "../offer/catalog.ts";

/** GET …/schema: returns the JSON Schema of a job's input. Throws `request.not_found` if the job declares none and accepts any body. */
export function toSchemaAnswer({ input }: Job): JsonSchema {
  if (input !== undefined) return input.schema;
  throw AppError.public("request.not_found", "this job declares no input schema: it accepts any body");
}
