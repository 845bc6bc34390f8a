/* Runs one scenario. See notice.h. */
#include "notice.h"

static const struct {
    const char *name;
    void (*run)(void);
} scenarios[] = {
#define ROW(name) {#name, scenario_##name},
    SCENARIOS(ROW)
#undef ROW
};

int main(int argc, char **argv)
{
    size_t count = sizeof scenarios / sizeof scenarios[0];
    alarm(90 * patience());
    if (argc == 2)
        for (size_t i = 0; i < count; i++)
            if (strcmp(argv[1], scenarios[i].name) == 0) {
                figures_open(argv[1]);
                scenarios[i].run();
                say_mappings();
                say("done");
                return 0;
            }
    FAIL(2, "usage: notice SCENARIO    (see notice.h)");
}
