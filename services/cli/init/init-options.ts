/** The words that two options take. */
export const CHOICES = {
  ways: ["webhooks", "payments", "both"],
  tokens: ["devnet", "base-sepolia"],
} as const;

export type InitOptions = {
  ways?: string;
  preset?: string;
  path?: string;
  job: number;
  price?: string;
  token: (typeof CHOICES.tokens)[number];
  payTo?: string;
  runner?: string;
  redisUrl: string;
  yes?: boolean;
  force?: boolean;
  json?: boolean;
};
