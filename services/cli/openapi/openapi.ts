/** Services that have an OpenAPI document. */
export const DOCUMENTED = ["x402", "webhooks", "pricing", "runner", "console"] as const;
export type Documented = (typeof DOCUMENTED)[number];

export type OpenApiOptions = { configDir: string; json?: boolean };
