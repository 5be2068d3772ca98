# The drawing of the rooms (docs/rooms.svg): `cmake --preset release --graphviz=build/rooms.dot`
set(GRAPHVIZ_GRAPH_NAME rooms)
set(GRAPHVIZ_EXTERNAL_LIBS FALSE)
set(GRAPHVIZ_EXECUTABLES FALSE)
set(GRAPHVIZ_GENERATE_PER_TARGET FALSE)
set(GRAPHVIZ_GENERATE_DEPENDERS FALSE)
set(GRAPHVIZ_IGNORE_TARGETS headers orrery_test_support orrery_resources ".*_autogen")
