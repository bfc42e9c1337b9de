import { z } from "zod";

/** `[console]` of postern.toml: what is kept for whoever operates the deployment, and no call needs. */
export const consoleTable = z.strictObject({
  report: z.boolean().default(true),
});
