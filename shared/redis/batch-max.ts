/**
 * Commands, or askings of one command, that leave together at most. Many replies arrive at once, and what they cause
 * would leave at once: without a bound this process and Redis would take turns to work instead of working side by side.
 */
export const BATCH_MAX = 16;
