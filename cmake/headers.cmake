# The target `headers` compiles every header alone, so that each includes what it needs. Parts of a file that
# are headers by name only (*.inl.h) are left out. Nothing of it is linked.
file(GLOB_RECURSE headers CONFIGURE_DEPENDS RELATIVE ${PROJECT_SOURCE_DIR}
     ${PROJECT_SOURCE_DIR}/kernels/*.h ${PROJECT_SOURCE_DIR}/engine/*.h ${PROJECT_SOURCE_DIR}/tests/*.h
     ${PROJECT_SOURCE_DIR}/app/*.h)
if(ORRERY_GUI)
  file(GLOB_RECURSE ui_headers CONFIGURE_DEPENDS RELATIVE ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/ui/*.h)
  list(APPEND headers ${ui_headers})
endif()
list(FILTER headers EXCLUDE REGEX "\\.inl\\.h$")

set(header_units)
foreach(header ${headers})
  set(unit ${PROJECT_BINARY_DIR}/headers/${header}.cpp)
  file(CONFIGURE OUTPUT ${unit} CONTENT "#include \"${header}\"\n" @ONLY)
  list(APPEND header_units ${unit})
endforeach()
add_library(headers OBJECT EXCLUDE_FROM_ALL ${header_units})
target_compile_options(headers PRIVATE -O0 -g0)
# Intrinsics need their instruction set.
set_source_files_properties(${PROJECT_BINARY_DIR}/headers/kernels/cpu/simd_avx2.h.cpp
                            ${PROJECT_BINARY_DIR}/headers/kernels/cpu/simd_avx512.h.cpp
  PROPERTIES COMPILE_OPTIONS "-march=x86-64-v4;-mavx512vnni;-Wno-psabi;-Wno-unused-function")
get_property(rooms GLOBAL PROPERTY orrery_room_names)
target_link_libraries(headers PRIVATE ${rooms} orrery_test_support CLI11::CLI11 spdlog::spdlog)
