/* What GCC's unwinder asks glibc for since 2.35 and musl does not have: where the unwind table of the code at an address is.
 * The interface is that of glibc's manual (Dynamic Linker Introspection); a static program has one object, itself. */
#define _GNU_SOURCE
#include <link.h>
#include <stddef.h>
#include <stdint.h>

struct dl_find_object {
	unsigned long long flags;
	void *map_start, *map_end;
	struct link_map *link_map;
	void *eh_frame;
	unsigned long long reserved[7];
};

struct asked {
	uintptr_t address;
	struct dl_find_object *found;
};

static int look(struct dl_phdr_info *info, size_t size, void *data)
{
	struct asked *asked = data;
	int is_in = 0;

	(void)size;
	asked->found->eh_frame = NULL;
	for (int at = 0; at < info->dlpi_phnum; at++) {
		const ElfW(Phdr) *part = &info->dlpi_phdr[at];
		uintptr_t start = info->dlpi_addr + part->p_vaddr;

		if (part->p_type == PT_GNU_EH_FRAME)
			asked->found->eh_frame = (void *)start;
		if (part->p_type == PT_LOAD && asked->address - start < part->p_memsz) {
			is_in = 1;
			asked->found->map_start = (void *)start;
			asked->found->map_end = (void *)(start + part->p_memsz);
		}
	}
	return is_in && asked->found->eh_frame != NULL;
}

int _dl_find_object(void *address, struct dl_find_object *found)
{
	struct asked asked = { (uintptr_t)address, found };

	found->flags = 0;
	found->link_map = NULL;
	return dl_iterate_phdr(look, &asked) ? 0 : -1;
}
